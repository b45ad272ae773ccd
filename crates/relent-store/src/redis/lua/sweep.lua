-- ARGV[4]: how many at most, ARGV[5]: how long whoever takes over has.
-- Answers with the first token, the end of the leases, and ids and tasks as they were before.
local max, till = tonumber(ARGV[4]), add(now, ARGV[5])
local taken, old, new, moved = {}, {}, {}, {}
local token = first_token()

local function take(id, task, state)
    call('SETRANGE', base .. 't' .. id, 0, string.char(state) .. sub(task, 2, 26)
        .. token8(token + #new) .. till .. sub(task, 43, 58) .. ARGV[3])
    new[#new + 1] = till .. id .. ARGV[3]
    taken[#taken + 1] = id
    taken[#taken + 1] = task
end

for _, member in ipairs(call('ZRANGEBYLEX', base .. 'l', '-', '[' .. now .. FULL, 'LIMIT', 0, max)) do
    local id = sub(member, 9, 16)
    local task = without_body(id)
    old[#old + 1] = member
    if task and sub(task, 35, 42) .. id .. sub(task, 59, 62) == member then
        take(id, task, byte(task, 1))
    end
end

local looked = 0
while #new < max and looked < 2000 do
    local found = call('ZRANGEBYLEX', base .. 'z', '-', '[' .. now .. FULL, 'LIMIT', 0, max - #new)
    if #found == 0 then break end
    call('ZREM', base .. 'z', unpack(found))
    looked = looked + #found
    for _, member in ipairs(found) do
        local id = sub(member, 9)
        local task = without_body(id)
        if task and byte(task, 1) == PENDING then
            local line, place = place_of(id, task)
            call('ZREM', base .. 'q' .. line, place)
            moved[line] = (moved[line] or 0) + 1
            take(id, task, HELD)
        end
    end
end
for line, by in pairs(moved) do
    refresh_head(line)
    count(line, -by)
    count('i' .. floor(line / 2), by)
end
if #old > 0 then each('ZREM', base .. 'l', old) end
if #new > 0 then
    sort_in(base .. 'l', new)
    last_token(token + #new - 1)
end
return { string.format('%.0f', token), till, looked >= 2000 and 1 or 0, unpack(taken) }
