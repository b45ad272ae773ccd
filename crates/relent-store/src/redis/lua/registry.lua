-- Policies, lanes and nodes: few, and all in the first shard. ARGV[4]: what is to be done.
-- Changes are counted, so that a node hears of each: a time could be set back.
local function changed(what)
    call('ZADD', base .. 'w', call('INCR', base .. 'wn'), what)
end

-- ARGV[5]: tenant and id, ARGV[6]: tenant, ARGV[7]: lease, tenant and id as a record has them,
-- ARGV[8]: the document. Answers with key and record.
local function put_policy()
    local key = call('HGET', base .. 'pl', ARGV[5])
    local version = 1
    if key then
        local latest = call('HGET', base .. 'p', key)
        if byte(latest, 1) == 0 and sub(latest, 14 + #ARGV[7]) == ARGV[8] then
            return { key, latest }
        end
        version = unpack8('>I4', latest, 2) + 1
    end
    key = call('INCR', base .. 'pn')
    local record = '\0' .. pack('>I4', version) .. now .. ARGV[7] .. ARGV[8]
    call('HSET', base .. 'p', key, record)
    call('HSET', base .. 'pl', ARGV[5], key)
    call('RPUSH', base .. 'pt' .. ARGV[6], key)
    changed('p' .. key)
    return { tostring(key), record }
end

-- ARGV[5]: tenant and id, ARGV[6]: tenant, ARGV[7]: what records of this policy have after their time.
local function delete_policy()
    if not call('HGET', base .. 'pl', ARGV[5]) then return 0 end
    local deleted = 0
    for _, key in ipairs(call('LRANGE', base .. 'pt' .. ARGV[6], 0, -1)) do
        local record = call('HGET', base .. 'p', key)
        if byte(record, 1) == 0 and sub(record, 22, 21 + #ARGV[7]) == ARGV[7] then
            call('HSET', base .. 'p', key, '\1' .. sub(record, 2))
            changed('p' .. key)
            deleted = 1
        end
    end
    return deleted
end

-- Everything about a lane.
local function lane_of(id)
    return { id, call('HGET', base .. 'v', id), call('HGET', base .. 'vs', id),
        call('HGET', base .. 'vb', id), call('HGET', base .. 'vk', id) }
end

-- ARGV[5]: tenant and dependency, ARGV[6]: how many lanes there may be, ARGV[7]: the record.
local function open_lane()
    local id = call('HGET', base .. 'vi', ARGV[5])
    if not id then
        if call('HLEN', base .. 'vi') >= tonumber(ARGV[6]) then return { '' } end
        id = call('INCR', base .. 'vn')
        call('HSET', base .. 'vi', ARGV[5], id)
        call('HSET', base .. 'v', id, ARGV[7])
        changed('v' .. id)
    end
    return lane_of(id)
end

-- ARGV[5]: the lane, ARGV[6]: the tenant with its length, ARGV[7]: whether it is paused, in one byte,
-- or all of its limits. Answers with what is set now, or '' if there is no such lane.
local function change_lane()
    local record = call('HGET', base .. 'v', ARGV[5])
    if not record or sub(record, 1, #ARGV[6]) ~= ARGV[6] then return '' end
    local settings = call('HGET', base .. 'vs', ARGV[5]) or string.rep('\0', 16)
    if #ARGV[7] == 1 then
        settings = ARGV[7] .. sub(settings, 2)
    else
        settings = sub(settings, 1, 1) .. ARGV[7]
    end
    call('HSET', base .. 'vs', ARGV[5], settings)
    changed('v' .. ARGV[5])
    return settings
end

-- Pairs of lane and budget.
local function save_budgets()
    for at = 5, #ARGV, 2 do
        if call('HEXISTS', base .. 'v', ARGV[at]) == 1 then
            call('HSET', base .. 'vb', ARGV[at], ARGV[at + 1])
        end
    end
    return 1
end

-- Triples of lane, revision that was seen, and breaker. Answers with lane, revision and breaker.
local function swap_breakers()
    local out = {}
    for at = 5, #ARGV, 3 do
        local lane = ARGV[at]
        if call('HEXISTS', base .. 'v', lane) == 0 then
            out[#out + 1] = { 0, NIL8 }
        else
            local held = call('HGET', base .. 'vk', lane) or NIL8
            if sub(held, 1, 8) == ARGV[at + 1] then
                local revision = add(ARGV[at + 1], '\0\0\0\0\0\0\0\1')
                call('HSET', base .. 'vk', lane, revision .. ARGV[at + 2])
                changed('v' .. lane)
                out[#out + 1] = { 1, revision }
            else
                out[#out + 1] = { 2, held }
            end
        end
    end
    return out
end

-- ARGV[5]: whether it works, ARGV[6]: how long a node is counted, in microseconds, ARGV[7]: the last
-- change that it has heard of. Answers with the last change it now has, how many nodes are before it,
-- how many there are, and what has changed.
local function beat()
    local node = tostring(unpack8('>I4', ARGV[3]))
    call('HSET', base .. 'm', node, ARGV[5] .. string.format('%.0f', now_micros))
    local before, all = 0, 0
    local members = call('HGETALL', base .. 'm')
    for n = 1, #members, 2 do
        local seen = tonumber(sub(members[n + 1], 2))
        if seen <= now_micros - tonumber(ARGV[6]) then
            call('HDEL', base .. 'm', members[n])
        elseif byte(members[n + 1]) == 49 then
            all = all + 1
            if tonumber(members[n]) < tonumber(node) then before = before + 1 end
        end
    end
    local lanes, policies, heard = {}, {}, ARGV[7]
    local news = call('ZRANGEBYSCORE', base .. 'w', '(' .. heard, '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
    for n = 1, #news, 2 do
        local what, id = news[n], sub(news[n], 2)
        heard = news[n + 1]
        if byte(what) == 118 then
            lanes[#lanes + 1] = lane_of(id)
        else
            policies[#policies + 1] = { id, call('HGET', base .. 'p', id) }
        end
    end
    return { heard, before, all, lanes, policies }
end

-- ARGV[5]: how long a node is counted, in microseconds. Answers with how many are, whether they work or not.
local function nodes()
    local all = 0
    for _, seen in ipairs(call('HVALS', base .. 'm')) do
        if tonumber(sub(seen, 2)) > now_micros - tonumber(ARGV[5]) then all = all + 1 end
    end
    return all
end

-- Numbers that are given from now on are above this one.
local function skip(counter, number)
    if tonumber(call('GET', base .. counter) or 0) < tonumber(number) then
        call('SET', base .. counter, number)
    end
end

-- Four each: key, tenant and id, tenant, record. None is stored if one is there.
local function import_policies()
    for at = 5, #ARGV, 4 do
        if call('HEXISTS', base .. 'p', ARGV[at]) == 1 then return ARGV[at] end
    end
    for at = 5, #ARGV, 4 do
        local key, name, record = ARGV[at], ARGV[at + 1], ARGV[at + 3]
        call('HSET', base .. 'p', key, record)
        local latest = call('HGET', base .. 'pl', name)
        latest = latest and unpack8('>I4', call('HGET', base .. 'p', latest), 2)
        if not latest or latest < unpack8('>I4', record, 2) then call('HSET', base .. 'pl', name, key) end
        call('RPUSH', base .. 'pt' .. ARGV[at + 2], key)
        skip('pn', key)
        changed('p' .. key)
    end
    return ''
end

-- Six each: id, tenant and dependency, record, and settings, budget and breaker or ''. None is stored if
-- one is there.
local function import_lanes()
    for at = 5, #ARGV, 6 do
        local is_there = call('HEXISTS', base .. 'v', ARGV[at]) + call('HEXISTS', base .. 'vi', ARGV[at + 1])
        if is_there > 0 then return ARGV[at] end
    end
    for at = 5, #ARGV, 6 do
        local id = ARGV[at]
        call('HSET', base .. 'vi', ARGV[at + 1], id)
        call('HSET', base .. 'v', id, ARGV[at + 2])
        for n, kind in ipairs({ 'vs', 'vb', 'vk' }) do
            if ARGV[at + 2 + n] ~= '' then call('HSET', base .. kind, id, ARGV[at + 2 + n]) end
        end
        skip('vn', id)
        changed('v' .. id)
    end
    return ''
end

return ({
    nodes = nodes, import_policies = import_policies, import_lanes = import_lanes,
    put_policy = put_policy, delete_policy = delete_policy, open_lane = open_lane,
    change_lane = change_lane, save_budgets = save_budgets, swap_breakers = swap_breakers, beat = beat,
})[ARGV[4]]()
