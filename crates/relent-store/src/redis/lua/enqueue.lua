-- ARGV[4]: the highest id that the node knows, ARGV[5]: the shard's number. Then batches: size and
-- tenant, and for each task how it is to be scheduled and what is written of it.
-- Answers with kind, id and due time of each.
local shard = tonumber(ARGV[5])
local ms = math.max(floor(now_micros / 1000) - 1767225600000, 0)
local hi, lo = floor(ms / 1024), ms % 1024 * 4194304
local function after(id)
    local h, l = unpack8('>I4I4', id)
    l = l - l % 256
    if h > hi or (h == hi and l >= lo) then
        hi, lo = h, l + 256
        if lo >= WORD then hi, lo = hi + 1, lo - WORD end
    end
end
after(call('GET', base .. 'i') or NIL8)
after(ARGV[4])

local fresh, out, last = {}, {}, nil
local sets, lines, keys, index, deadlines = {}, {}, {}, {}, {}
local EMPTY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local NOTHING = string.rep('\0', 36)
local NO_HISTORY = string.rep('\0', 40)
local EARLIEST = {}

local function create(control, tail, tenant)
    local id = pack('>I4I4', hi, lo + shard)
    last = id
    lo = lo + 256
    if lo >= WORD then hi, lo = hi + 1, lo - WORD end
    local wait, due = sub(control, 1, 8), now
    if wait ~= NIL8 then due = add(now, wait) end
    local not_before = sub(control, 9, 16)
    if not_before ~= NIL8 and not reached(not_before, due) then due = not_before end
    local deadline = add(due, sub(control, 17, 24))
    sets[#sets + 1] = base .. 't' .. id
    sets[#sets + 1] = EMPTY .. sub(control, 25, 36) .. NOTHING .. due .. due .. deadline
        .. NO_HISTORY .. tail
    local line = unpack8('>I4', tail) * 2
    push(lines, line, due .. id)
    if not EARLIEST[line] or reached(due, EARLIEST[line]) then EARLIEST[line] = due end
    push(index, tenant, id)
    deadlines[#deadlines + 1] = deadline .. id
    if #control > 36 then
        local hash = sub(control, 37)
        local bucket = string.format('%02x', byte(hash))
        push(keys, bucket, hash)
        push(keys, bucket, id)
        fresh[hash] = { id, sub(tail, 6, 21) }
    end
    return 'N' .. id .. due
end

-- What is stored under a key: id and fingerprint.
local function known(hash)
    local found = fresh[hash]
    if found == nil then
        local id = call('HGET', base .. 'k' .. string.format('%02x', byte(hash)), hash)
        found = id and { id, call('GETRANGE', base .. 't' .. id, 131, 146) }
        fresh[hash] = found
    end
    return found
end

local at = 6
while at <= #ARGV do
    local size, tenant = unpack8('>I4', ARGV[at]), sub(ARGV[at], 5)
    local answers, batch, conflict = {}, {}, false
    for n = 1, size do
        local control, tail = ARGV[at + 2 * n - 1], ARGV[at + 2 * n]
        local hash = #control > 36 and sub(control, 37)
        local found = hash and known(hash)
        local print = sub(tail, 6, 21)
        if found then
            local same = found[2] == print
            answers[n] = (same and 'E' or 'C') .. found[1] .. NIL8
            conflict = conflict or not same
        elseif hash and batch[hash] and batch[hash] ~= print then
            answers[n] = 'B' .. NIL8 .. NIL8
            conflict = true
        else
            if hash then batch[hash] = print end
            answers[n] = 'W' .. NIL8 .. NIL8
        end
    end
    if not conflict then
        for n = 1, size do
            if byte(answers[n]) == 87 then
                local control = ARGV[at + 2 * n - 1]
                local repeated = #control > 36 and fresh[sub(control, 37)]
                if repeated then
                    answers[n] = 'E' .. repeated[1] .. NIL8
                else
                    answers[n] = create(control, ARGV[at + 2 * n], tenant)
                end
            end
        end
    end
    for n = 1, size do out[#out + 1] = answers[n] end
    at = at + 2 * size + 1
end

if last then
    for from = 1, #sets, 2000 do
        call('MSET', unpack(sets, from, math.min(from + 1999, #sets)))
    end
    for line, members in pairs(lines) do
        sort_in(base .. 'q' .. line, members)
        call('ZADD', base .. 'h', 'LT', micros(EARLIEST[line]), line)
        count(line, #members)
    end
    for tenant, ids in pairs(index) do sort_in(base .. 'x' .. tenant, ids) end
    for bucket, pairs_of in pairs(keys) do each('HSET', base .. 'k' .. bucket, pairs_of) end
    sort_in(base .. 'z', deadlines)
    call('SET', base .. 'i', last)
end
return table.concat(out)
