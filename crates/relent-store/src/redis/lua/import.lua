-- Tasks from another store, under the ids they have: all of them, or none if something else is in the way.
-- ARGV[4]: `compare` or `store`, ARGV[5]: the highest id, which new ones come after, ARGV[6]: ids of tasks
-- that belong in other shards. Then for each task its id with the times of its attempts, the task itself,
-- and the rows of its attempts. Answers with how many are new, or with the id that is another's.
local news, fresh = {}, {}
local sets, lines, index, dead = {}, {}, {}, {}
local deadlines, leases, dones, entombed, logged = {}, {}, {}, {}, {}
local counts = {}

-- As `Likeness` says: whether it is the task that is to be copied, as it was then.
local function likeness(task)
    local state = byte(task, 1)
    if state == HELD then state = IN_FLIGHT end
    return string.char(state) .. sub(task, 7, 14) .. sub(task, 132, 147)
end

-- What a task's key is found by, if it has one.
local function hash_of(task)
    local at = 153 + byte(task, 152)
    return sub(task, at, at + 1) ~= '\0\0' and sub(task, at + 2, at + 17) or nil
end

for at = 1, #ARGV[6], 8 do
    local id = sub(ARGV[6], at, at + 7)
    if call('EXISTS', base .. 't' .. id) == 1 then return { id } end
end
for at = 7, #ARGV, 3 do
    local id, task = sub(ARGV[at], 1, 8), ARGV[at + 1]
    local there = head_of(id)
    if fresh[id] or (#there > 0 and likeness(there) ~= likeness(task)) then return { id } end
    if #there == 0 then
        local hash = hash_of(task)
        if hash then
            if fresh[hash] or call('EXISTS', base .. 'k' .. hash) == 1 then return { id } end
            fresh[hash] = true
        end
        fresh[id] = true
        news[#news + 1] = at
    end
end
if not reached(ARGV[5], call('GET', base .. 'i') or NIL8) then call('SET', base .. 'i', ARGV[5]) end
if ARGV[4] == 'compare' then return #news end

local function tally(field)
    counts[field] = (counts[field] or 0) + 1
end

local token = first_token()
local function take_in(id, times, task, rows)
    local state, lane, tenant = byte(task, 1), unpack8('>I4', task, 127), tenant_of(task)
    if state == PENDING then
        local line, place = place_of(id, task)
        push(lines, line, place)
        tally(line)
        deadlines[#deadlines + 1] = sub(task, 79, 86) .. id
    elseif state == IN_FLIGHT or state == HELD then
        task = sub(task, 1, 26) .. token8(token + #leases) .. sub(task, 35)
        leases[#leases + 1] = sub(task, 35, 42) .. id .. sub(task, 59, 62)
        tally('i' .. lane)
    elseif state == EXHAUSTED then
        entombed[#entombed + 1] = sub(task, 51, 58) .. id
        push(dead, tenant, id)
        tally('d' .. lane)
    else
        dones[#dones + 1] = sub(task, 51, 58) .. id
    end
    push(index, tenant, id)
    local hash = hash_of(task)
    if hash then
        sets[#sets + 1] = base .. 'k' .. hash
        sets[#sets + 1] = id
    end
    sets[#sets + 1] = base .. 't' .. id
    sets[#sets + 1] = task
    if rows ~= '' then
        sets[#sets + 1] = base .. 'a' .. id
        sets[#sets + 1] = rows
    end
    -- Two attempts may have begun at the same time.
    for n = 1, #times, 8 do
        logged[#logged + 1] = sub(times, n, n + 7) .. id .. pack('>I4', n)
    end
end

for _, at in ipairs(news) do
    take_in(sub(ARGV[at], 1, 8), sub(ARGV[at], 9), ARGV[at + 1], ARGV[at + 2])
end
for from = 1, #sets, 2000 do
    call('MSET', unpack(sets, from, math.min(from + 1999, #sets)))
end
for tenant, ids in pairs(index) do sort_in(base .. 'x' .. tenant, ids) end
for tenant, ids in pairs(dead) do sort_in(base .. 'd' .. tenant, ids) end
for line, members in pairs(lines) do
    sort_in(base .. 'q' .. line, members)
    refresh_head(line)
end
sort_in(base .. 'z', deadlines)
sort_in(base .. 'l', leases)
if #leases > 0 then last_token(token + #leases - 1) end
sort_in(base .. 'os', dones)
sort_in(base .. 'bs', entombed)
sort_in(base .. 'gs', logged)
for field, by in pairs(counts) do count(field, by) end
return #news
