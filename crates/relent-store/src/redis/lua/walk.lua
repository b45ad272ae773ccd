-- Walking through all tasks, for whoever copies them. ARGV[4]: `ids`, `sizes` or `tally`.

-- ARGV[5..6]: ids from and to, as ranges are written, ARGV[7]: how many of each tenant. Then tenants.
local function ids()
    local out = {}
    for at = 8, #ARGV do
        local found = call('ZRANGEBYLEX', base .. 'x' .. ARGV[at], ARGV[5], ARGV[6], 'LIMIT', 0, ARGV[7])
        out[#out + 1] = table.concat(found)
    end
    return table.concat(out)
end

-- How large these tasks are, with the rows of their attempts.
local function sizes()
    local out = {}
    for at = 5, #ARGV do
        local size = call('STRLEN', base .. 't' .. ARGV[at]) + call('STRLEN', base .. 'a' .. ARGV[at])
        out[#out + 1] = pack('>I8', size)
    end
    return table.concat(out)
end

-- ARGV[5]: the tenant, ARGV[6]: ids from where on, as ranges are written. Answers with the last id looked
-- at, or '' at the end, and how many tasks are in which state.
local function tally()
    local found = call('ZRANGEBYLEX', base .. 'x' .. ARGV[5], ARGV[6], '+', 'LIMIT', 0, 2000)
    local counts = { 0, 0, 0, 0, 0, 0 }
    for _, id in ipairs(found) do
        local state = byte(call('GETRANGE', base .. 't' .. id, 0, 0))
        if state and counts[state + 1] then counts[state + 1] = counts[state + 1] + 1 end
    end
    return { #found == 2000 and found[2000] or '', unpack(counts) }
end

return ({ ids = ids, sizes = sizes, tally = tally })[ARGV[4]]()
