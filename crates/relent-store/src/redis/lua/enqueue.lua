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

local out, last = {}, nil
local sets, lines, index, deadlines = {}, {}, {}, {}
local EMPTY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local NOTHING = string.rep('\0', 36)
local NO_HISTORY = string.rep('\0', 40)

-- What tasks that are scheduled alike have in common: due time, deadline, and how they begin.
local alike = {}
local function scheduled(control)
    local schedule = sub(control, 1, 36)
    local found = alike[schedule]
    if found then return found end
    local wait, due = sub(control, 1, 8), now
    if wait ~= NIL8 then due = add(now, wait) end
    local not_before = sub(control, 9, 16)
    if not_before ~= NIL8 and not reached(not_before, due) then due = not_before end
    local deadline = add(due, sub(control, 17, 24))
    found = { due = due, deadline = deadline,
        head = EMPTY .. sub(control, 25, 36) .. NOTHING .. due .. due .. deadline .. NO_HISTORY }
    alike[schedule] = found
    return found
end

-- Under which id a key is stored, and where among ARGV the task is if it came with this call.
local known, came = {}, {}

local function create(control, at, tenant)
    local tail, common = ARGV[at], scheduled(control)
    local due, id = common.due, pack('>I4I4', hi, lo + shard)
    last = id
    lo = lo + 256
    if lo >= WORD then hi, lo = hi + 1, lo - WORD end
    local next_set = #sets + 1
    sets[next_set], sets[next_set + 1] = base .. 't' .. id, common.head .. tail
    local number = unpack8('>I4', tail) * 2
    local line = lines[number]
    if not line then
        line = { earliest = due }
        lines[number] = line
    elseif due ~= line.earliest and reached(due, line.earliest) then
        line.earliest = due
    end
    line[#line + 1] = due .. id
    push(index, tenant, id)
    deadlines[#deadlines + 1] = common.deadline .. id
    if #control > 36 then
        local hash = sub(control, 37)
        sets[next_set + 2], sets[next_set + 3] = base .. 'k' .. hash, id
        known[hash], came[hash] = id, at
    end
    return 'N' .. id .. due
end

-- Whether a task with a known key is the one that is stored under it, by their fingerprints.
local function is_same(hash, tail)
    local there = came[hash]
    there = there and sub(ARGV[there], 6, 21)
        or call('GETRANGE', base .. 't' .. known[hash], '131', '146')
    return there == sub(tail, 6, 21)
end

-- All keys are looked up at once.
local at, hashes, names = 6, {}, {}
while at <= #ARGV do
    local size = unpack8('>I4', ARGV[at])
    for n = at + 1, at + 2 * size, 2 do
        if #ARGV[n] > 36 then
            local hash = sub(ARGV[n], 37)
            hashes[#hashes + 1] = hash
            names[#names + 1] = base .. 'k' .. hash
        end
    end
    at = at + 2 * size + 1
end
for from = 1, #names, 2000 do
    local ids = call('MGET', unpack(names, from, math.min(from + 1999, #names)))
    for n = 1, #ids do known[hashes[from + n - 1]] = ids[n] or nil end
end

at = 6
while at <= #ARGV do
    local size, tenant = unpack8('>I4', ARGV[at]), sub(ARGV[at], 5)
    local answers, batch, conflict = {}, {}, false
    for n = 1, size do
        local control, tail = ARGV[at + 2 * n - 1], ARGV[at + 2 * n]
        local hash = #control > 36 and sub(control, 37)
        if hash and known[hash] then
            local same = is_same(hash, tail)
            answers[n] = (same and 'E' or 'C') .. known[hash] .. NIL8
            conflict = conflict or not same
        elseif hash and size > 1 then
            local print = sub(tail, 6, 21)
            if batch[hash] == nil then
                batch[hash] = print
            elseif batch[hash] ~= print then
                answers[n] = 'B' .. NIL8 .. NIL8
                conflict = true
            end
        end
    end
    for n = 1, size do
        if answers[n] == nil then
            local control = ARGV[at + 2 * n - 1]
            local repeated = #control > 36 and known[sub(control, 37)]
            if conflict then
                answers[n] = 'W' .. NIL8 .. NIL8
            elseif repeated then
                answers[n] = 'E' .. repeated .. NIL8
            else
                answers[n] = create(control, at + 2 * n, tenant)
            end
        end
        out[#out + 1] = answers[n]
    end
    at = at + 2 * size + 1
end

if last then
    for from = 1, #sets, 2000 do
        call('MSET', unpack(sets, from, math.min(from + 1999, #sets)))
    end
    for number, line in pairs(lines) do
        sort_in(base .. 'q' .. number, line)
        call('ZADD', base .. 'h', 'LT', micros(line.earliest), number)
        count(number, #line)
    end
    for tenant, ids in pairs(index) do sort_in(base .. 'x' .. tenant, ids) end
    sort_in(base .. 'z', deadlines)
    call('SET', base .. 'i', last)
end
return table.concat(out)
