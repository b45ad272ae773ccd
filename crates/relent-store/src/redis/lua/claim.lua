-- ARGV[4]: how many tasks at most, ARGV[5]: how many bytes. Then for each want its line, its maximum
-- and how long ahead of its time a task may be taken.
-- What has passed its deadline is taken out of its line, and left to the sweep.
-- Answers with the time, the first token, for each want what is next and how many were taken, and the
-- tasks as they were before.
local rows_left, bytes_left = tonumber(ARGV[4]), tonumber(ARGV[5])
local taken, nexts, leases = {}, {}, {}
local token = first_token()
local now_hi, now_lo = unpack8('>I4I4', now)
local LOOK_MAX = 2000

-- What tasks that begin alike have in common when they are taken: how they begin then, and until when.
local alike = {}
local function begun(task)
    local begin = sub(task, 1, 26)
    local found = alike[begin]
    if not found then
        local till = add(now, sub(task, 19, 26))
        found = { till = till, rest = till .. now .. NIL8 .. ARGV[3],
            head = '\1' .. sub(task, 2, 6) .. pack('>I4', unpack8('>I4', task, 7) + 1) .. sub(task, 11, 26) }
        alike[begin] = found
    end
    return found
end

local function take(name, id, task)
    local common = begun(task)
    call('SETRANGE', name, '0', common.head .. token8(token + #leases) .. common.rest)
    leases[#leases + 1] = common.till .. id .. ARGV[3]
    taken[#taken + 1] = id
    taken[#taken + 1] = task
    bytes_left = bytes_left - #task
end

-- The next tasks of these places, as many as are likely to fit.
local largest = nil
local function some_of(places, after)
    local many = largest and math.max(1, math.min(100, floor(bytes_left / largest))) or 4
    local names = {}
    for n = 1, math.min(many, #places - after) do names[n] = base .. 't' .. sub(places[after + n], 9) end
    return names, call('MGET', unpack(names))
end

-- Takes out of these places what may be taken, while there is room. Returns the places that are done
-- with, and how many tasks were taken.
local function take_from(places)
    local seen, took = {}, 0
    while #seen < #places and bytes_left > 0 do
        local names, tasks = some_of(places, #seen)
        for n = 1, #names do
            if bytes_left <= 0 then break end
            local place, task = places[#seen + 1], tasks[n]
            seen[#seen + 1] = place
            if task then
                largest = math.max(largest or 1, #task)
                local hi, lo = unpack8('>I4I4', task, 79)
                if hi > now_hi or (hi == now_hi and lo > now_lo) then
                    take(names[n], sub(place, 9), task)
                    took = took + 1
                end
            end
        end
    end
    return seen, took
end

for at = 6, #ARGV, 3 do
    local line, want = ARGV[at], math.min(tonumber(ARGV[at + 1]), rows_left)
    local due_by = '[' .. add(now, ARGV[at + 2]) .. FULL
    local queue, took, looked, is_more = base .. 'q' .. line, 0, 0, true
    while is_more and took < want and looked < LOOK_MAX and bytes_left > 0 do
        local missing = want - took
        local places = call('ZRANGEBYLEX', queue, '-', due_by, 'LIMIT', '0', missing)
        if #places == 0 then break end
        local seen, more = take_from(places)
        call('ZREM', queue, unpack(seen))
        looked, took = looked + #seen, took + more
        is_more = #places == missing
    end
    rows_left = rows_left - took
    local first, next_at = nil, nil
    for _ = 1, LOOK_MAX do
        first = first_of(line)
        next_at = first and sub(first, 1, 8)
        if not first or not reached(next_at, now) then break end
        local deadline = call('GETRANGE', base .. 't' .. sub(first, 9), 78, 85)
        if #deadline == 8 and not reached(deadline, now) then break end
        call('ZREM', queue, first)
        looked = looked + 1
    end
    if looked > 0 then set_head(line, first) end
    if took > 0 then
        count(line, -took)
        count('i' .. floor(tonumber(line) / 2), took)
    end
    nexts[#nexts + 1] = (next_at and '\1' .. next_at or '\0' .. NIL8) .. pack('>I4', took)
end
if #leases > 0 then
    sort_in(base .. 'l', leases)
    last_token(token + #leases - 1)
end
return { now, string.format('%.0f', token), table.concat(nexts), unpack(taken) }
