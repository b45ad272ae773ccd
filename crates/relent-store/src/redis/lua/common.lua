-- What every script begins with. See layout.rs for where things are in a task.
-- KEYS[1]: the shard's epoch. ARGV[1]: the epoch that is expected, ARGV[2]: the time or '', ARGV[3]: the node.
-- Texts are compared as numbers: `<` on strings would follow the server's locale.
-- A call costs far more than another argument, and a number as an argument more than its text: what is
-- done for each task is gathered into commands that take many.
local call, byte, sub, floor = redis.call, string.byte, string.sub, math.floor
local pack, unpack8 = struct.pack, struct.unpack
local base = sub(KEYS[1], 1, -2)
-- The second key is never there. While a Cluster moves this slot to another server, whoever asks for a
-- key that is not there is refused: so no script begins when some of what it needs may have gone.
if call('MGET', KEYS[1], base .. '!')[1] ~= ARGV[1] then
    return redis.error_reply('RELENTRESET the epoch is not the expected one')
end

local WORD = 4294967296
local NIL8 = '\0\0\0\0\0\0\0\0'
local FULL = '\255\255\255\255\255\255\255\255\255\255\255\255\255'
local PENDING, IN_FLIGHT, SUCCEEDED, EXHAUSTED, CANCELLED, HELD = 0, 1, 2, 3, 4, 5

-- Nanoseconds in 8 bytes to whole microseconds.
local function micros(at)
    local hi, lo = unpack8('>I4I4', at)
    return floor(hi / 1000) * WORD + floor((hi % 1000 * WORD + lo) / 1000)
end

-- No later than the last time there is.
local function add(a, b)
    local ah, al = unpack8('>I4I4', a)
    local bh, bl = unpack8('>I4I4', b)
    local lo, carry = al + bl, 0
    if lo >= WORD then lo, carry = lo - WORD, 1 end
    local hi = ah + bh + carry
    if hi >= WORD then return sub(FULL, 1, 8) end
    return pack('>I4I4', hi, lo)
end

local function subtract(a, b)
    local ah, al = unpack8('>I4I4', a)
    local bh, bl = unpack8('>I4I4', b)
    local lo, carry = al - bl, 0
    if lo < 0 then lo, carry = lo + WORD, 1 end
    return pack('>I4I4', ah - bh - carry, lo)
end

-- Whether a is not after b.
local function reached(a, b)
    local ah, al = unpack8('>I4I4', a)
    local bh, bl = unpack8('>I4I4', b)
    return ah < bh or (ah == bh and al <= bl)
end

local now, now_micros = ARGV[2], nil
if now == '' then
    local time = call('TIME')
    local seconds, rest = tonumber(time[1]), tonumber(time[2])
    now_micros = seconds * 1000000 + rest
    local high = floor(seconds / 65536) * 1000000000
    local low = high % 65536 * 65536 + seconds % 65536 * 1000000000 + rest * 1000
    now = pack('>I4I4', floor(high / 65536) + floor(low / WORD), low % WORD)
else
    now_micros = micros(now)
end

local function count(field, by)
    if by ~= 0 and call('HINCRBY', base .. 'c', field, by) == 0 then
        call('HDEL', base .. 'c', field)
    end
end

-- Adds to a table of lists.
local function push(lists, name, value)
    local list = lists[name]
    if list then list[#list + 1] = value else lists[name] = { value } end
end

-- Runs a command with many arguments, in parts that fit on Lua's stack.
local function each(command, key, args)
    for from = 1, #args, 2000 do
        call(command, key, unpack(args, from, math.min(from + 1999, #args)))
    end
end

-- Adds members to a set that is sorted by them.
local function sort_in(key, members)
    local args = {}
    for n = 1, #members do args[2 * n - 1], args[2 * n] = '0', members[n] end
    each('ZADD', key, args)
end

local function first_of(line)
    return call('ZRANGE', base .. 'q' .. line, '0', '0')[1]
end

-- A line's earliest due time, where nodes look for it.
local function set_head(line, first)
    if first then
        call('ZADD', base .. 'h', micros(sub(first, 1, 8)), line)
    else
        call('ZREM', base .. 'h', line)
    end
end

local function refresh_head(line)
    set_head(line, first_of(line))
end

-- The line that a waiting task stands in, and its place there.
local function place_of(id, task)
    local retry = sub(task, 7, 10) == '\0\0\0\0' and 0 or 1
    return unpack8('>I4', task, 127) * 2 + retry, sub(task, 63, 70) .. id
end

-- Tokens grow with the time, so that they do not repeat when a failover forgets the last ones.
local function first_token()
    return math.max(tonumber(call('GET', base .. 'n') or 0) + 1, now_micros)
end

local function last_token(token)
    call('SET', base .. 'n', string.format('%.0f', token))
end

local function token8(token)
    return pack('>I4I4', floor(token / WORD), token % WORD)
end

local function tenant_of(task)
    return sub(task, 153, 152 + byte(task, 152))
end

-- Enough of a task to know everything about it but what is sent.
local HEAD = '233'
local function head_of(id)
    return call('GETRANGE', base .. 't' .. id, '0', HEAD)
end

-- Everything but the body.
local function without_body(id)
    local begin = call('GETRANGE', base .. 't' .. id, 0, 150)
    if #begin < 151 then return nil end
    return call('GETRANGE', base .. 't' .. id, 0, unpack8('>I4', begin, 148) - 1)
end

-- Deletes a task that has ended.
local function delete(id, task)
    local tenant = tenant_of(task)
    call('ZREM', base .. 'x' .. tenant, id)
    if byte(task, 1) == EXHAUSTED then
        call('ZREM', base .. 'd' .. tenant, id)
        count('d' .. unpack8('>I4', task, 127), -1)
    end
    local at = 153 + #tenant
    if sub(task, at, at + 1) ~= '\0\0' then
        call('DEL', base .. 'k' .. sub(task, at + 2, at + 17))
    end
    call('DEL', base .. 't' .. id, base .. 'a' .. id)
end
