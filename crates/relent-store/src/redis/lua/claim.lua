-- ARGV[4]: how many tasks at most, ARGV[5]: how many bytes. Then for each want its line and maximum.
-- What has passed its deadline is taken out of its line, and left to the sweep.
-- Answers with the time, the first token, for each want what is next and how many were taken, and the
-- tasks as they were before.
local rows_left, bytes_left = tonumber(ARGV[4]), tonumber(ARGV[5])
local taken, nexts, leases, untils = {}, {}, {}, {}
local token = first_token(0)
local LOOK_MAX = 2000

local function take(id, task)
    local long = sub(task, 19, 26)
    local till = untils[long]
    if not till then
        till = add(now, long)
        untils[long] = till
    end
    call('SETRANGE', base .. 't' .. id, 0, '\1' .. sub(task, 2, 6)
        .. pack('>I4', unpack8('>I4', task, 7) + 1) .. sub(task, 11, 26)
        .. token8(token + #leases) .. till .. now .. NIL8 .. ARGV[3])
    leases[#leases + 1] = till .. id .. ARGV[3]
    taken[#taken + 1] = id
    taken[#taken + 1] = task
    bytes_left = bytes_left - #task
end

for at = 6, #ARGV, 2 do
    local line, want = ARGV[at], math.min(tonumber(ARGV[at + 1]), rows_left)
    local queue, took, looked = base .. 'q' .. line, 0, 0
    while took < want and looked < LOOK_MAX and bytes_left > 0 do
        local found = call('ZRANGEBYLEX', queue, '-', '[' .. now .. FULL, 'LIMIT', 0, want - took)
        if #found == 0 then break end
        local seen = {}
        for n = 1, #found do
            local id = sub(found[n], 9)
            local task = call('GET', base .. 't' .. id)
            seen[n] = found[n]
            if task and not reached(sub(task, 79, 86), now) then
                take(id, task)
                took = took + 1
            end
            if bytes_left <= 0 then break end
        end
        call('ZREM', queue, unpack(seen))
        looked = looked + #seen
    end
    rows_left = rows_left - took
    local next_at = nil
    for _ = 1, LOOK_MAX do
        local first = call('ZRANGE', queue, 0, 0)[1]
        next_at = first and sub(first, 1, 8)
        if not first or not reached(next_at, now) then break end
        local deadline = call('GETRANGE', base .. 't' .. sub(first, 9), 78, 85)
        if #deadline == 8 and not reached(deadline, now) then break end
        call('ZREM', queue, first)
        looked = looked + 1
    end
    if took > 0 or looked > 0 then refresh_head(line) end
    if took > 0 then
        count(line, -took)
        count('i' .. floor(tonumber(line) / 2), took)
    end
    nexts[#nexts + 1] = (next_at and '\1' .. next_at or '\0' .. NIL8) .. pack('>I4', took)
end
if #leases > 0 then
    sort_in(base .. 'l', leases)
    first_token(#leases)
end
return { now, string.format('%.0f', token), table.concat(nexts), unpack(taken) }
