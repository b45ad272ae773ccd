-- ARGV[4]: `cancel`, `redrive` or `purge`, ARGV[5]: the tenant. Then what is to be changed.
local index = base .. 'x' .. ARGV[5]
local out, heads = {}, {}

local function find(id)
    return call('ZSCORE', index, id) and head_of(id)
end

local function cancel(id)
    local task = find(id)
    if not task then return '\255' end
    local state = byte(task, 1)
    if state == PENDING then
        local line, place = place_of(id, task)
        call('ZREM', base .. 'q' .. line, place)
        call('ZREM', base .. 'z', sub(task, 79, 86) .. id)
        call('SETRANGE', base .. 't' .. id, 0, '\4')
        call('SETRANGE', base .. 't' .. id, 50, now)
        call('RPUSH', base .. 'o', now .. id)
        count(line, -1)
        refresh_head(line)
    elseif state == IN_FLIGHT or state == HELD then
        call('SETRANGE', base .. 't' .. id, 1, '\1')
    end
    return string.char(state)
end

-- Id, wait, and with a policy of its own that policy, its lease and the lifetime.
local function redrive(wish)
    local id = sub(wish, 1, 8)
    local task = find(id)
    if not task then return '\255' .. NIL8 .. NIL8 end
    local state = byte(task, 1)
    if state ~= EXHAUSTED then return string.char(state) .. NIL8 .. NIL8 end
    local due = add(now, sub(wish, 9, 16))
    local policy, lifetime = sub(task, 15, 26), subtract(sub(task, 79, 86), sub(task, 71, 78))
    if #wish > 16 then policy, lifetime = sub(wish, 17, 28), sub(wish, 29, 36) end
    local deadline = add(due, lifetime)
    call('SETRANGE', base .. 't' .. id, 0, string.rep('\0', 10)
        .. pack('>I4', unpack8('>I4', task, 11) + 1) .. policy .. sub(task, 27, 34)
        .. string.rep('\0', 28) .. due .. due .. deadline .. string.rep('\0', 40))
    local lane = unpack8('>I4', task, 127)
    call('ZADD', base .. 'q' .. lane * 2, 0, due .. id)
    call('ZADD', base .. 'z', 0, deadline .. id)
    call('ZREM', base .. 'd' .. ARGV[5], id)
    count('d' .. lane, -1)
    count(lane * 2, 1)
    heads[lane * 2] = true
    return '\3' .. due .. pack('>I8', lane)
end

local function purge(id)
    local task = find(id)
    local state = task and byte(task, 1)
    if state == SUCCEEDED or state == EXHAUSTED or state == CANCELLED then
        delete(id, task)
        return '\1'
    end
    return '\0'
end

local change = ({ cancel = cancel, redrive = redrive, purge = purge })[ARGV[4]]
for at = 6, #ARGV do out[#out + 1] = change(ARGV[at]) end
for line in pairs(heads) do refresh_head(line) end
return table.concat(out)
