-- ARGV[4]: `lines` or `list`.

-- ARGV[5]: where to begin, ARGV[6]: until when lines are due, in microseconds.
-- Answers with how many lines were looked at, and lines and due times.
local function lines()
    local out = {}
    local found = call('ZRANGEBYSCORE', base .. 'h', '-inf', ARGV[6], 'LIMIT', ARGV[5], 500)
    for _, line in ipairs(found) do
        local queue, from = base .. 'q' .. line, 0
        while from < 2000 do
            local place = call('ZRANGE', queue, from, from)[1]
            if not place then break end
            local due = sub(place, 1, 8)
            local deadline = call('GETRANGE', base .. 't' .. sub(place, 9), 78, 85)
            if #deadline == 8 and not reached(deadline, now) then
                out[#out + 1] = pack('>I8', tonumber(line)) .. due
                break
            end
            from = from + 1
        end
    end
    return { #found, table.concat(out) }
end

-- ARGV[5]: the tenant, ARGV[6]: `x` or `d`, ARGV[7..8]: ids from and below, ARGV[9]: how many,
-- ARGV[10]: which states, ARGV[11]: the reason or '', ARGV[12..13]: lanes and policies, 4 bytes each,
-- or `*`. Answers with the last id looked at, or '' at the end, and tasks without their bodies.
local function list()
    local function set_of(text)
        if text == '*' then return nil end
        local set = {}
        for n = 1, #text, 4 do set[sub(text, n, n + 3)] = true end
        return set
    end
    local max, lanes, policies = tonumber(ARGV[9]), set_of(ARGV[12]), set_of(ARGV[13])
    local found = call('ZREVRANGEBYLEX', base .. ARGV[6] .. ARGV[5], '(' .. ARGV[8], '[' .. ARGV[7],
        'LIMIT', 0, 1000)
    local out, last = {}, ''
    for n, id in ipairs(found) do
        local key = base .. 't' .. id
        local task = call('GETRANGE', key, 0, 150)
        if #task == 151 and sub(ARGV[10], byte(task, 1) + 1, byte(task, 1) + 1) == '1'
            and (ARGV[11] == '' or sub(task, 4, 4) == ARGV[11])
            and (not lanes or lanes[sub(task, 127, 130)])
            and (not policies or policies[sub(task, 15, 18)]) then
            out[#out + 1] = id
            out[#out + 1] = call('GETRANGE', key, 0, unpack8('>I4', task, 148) - 1)
            out[#out + 1] = call('STRLEN', key)
        end
        if #out >= 3 * max then
            return { n < #found and id or (#found == 1000 and id or ''), unpack(out) }
        end
        last = id
    end
    return { #found == 1000 and last or '', unpack(out) }
end

return ARGV[4] == 'lines' and lines() or list()
