-- ARGV[4]: how many rows at most, ARGV[5..7]: before when delivered tasks, dead letters and attempts are old.
-- The three lists are in the order of time, so only their beginnings are looked at. What came from another
-- store did not come in that order: it is in sets beside them, sorted by time, whose beginnings are looked at too.
-- Answers with how many rows were deleted, and whether there may be more.
local max, done, looked = tonumber(ARGV[4]), 0, 0
local LOOK_MAX = 2000

local function old_ones(before, remove, first, drop)
    while done < max and looked < LOOK_MAX do
        local entry = first()
        if not entry or reached(before, sub(entry, 1, 8)) then return end
        drop(entry)
        looked = looked + 1
        if remove(sub(entry, 9, 16), sub(entry, 1, 8)) then done = done + 1 end
    end
end

local function old_ones_of(list, before, remove)
    local set = list .. 's'
    old_ones(before, remove, function() return call('ZRANGE', set, 0, 0)[1] end,
        function(entry) call('ZREM', set, entry) end)
    old_ones(before, remove, function() return call('LINDEX', list, 0) end,
        function() call('LPOP', list) end)
end

-- A task that was tried again, or deleted, since it ended at that time has no such end any more.
local function ended(id, at)
    local task = head_of(id)
    if #task == 0 or sub(task, 51, 58) ~= at then return false end
    delete(id, task)
    return true
end

local function attempt(id)
    local key = base .. 'a' .. id
    local begin = call('GETRANGE', key, 0, 11)
    if #begin < 12 or reached(ARGV[7], sub(begin, 5, 12)) then return false end
    local rest = call('GETRANGE', key, unpack8('>I4', begin), -1)
    if rest == '' then call('DEL', key) else call('SET', key, rest) end
    return true
end

old_ones_of(base .. 'o', ARGV[5], ended)
old_ones_of(base .. 'b', ARGV[6], ended)
old_ones_of(base .. 'g', ARGV[7], attempt)
return { done, looked >= LOOK_MAX and 1 or 0 }
