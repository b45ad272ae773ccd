-- Ends the leases of a node that leaves. ARGV[4]: where to go on; answers with the next place or ''.
local from = ARGV[4] == '' and '-' or '(' .. ARGV[4]
local found = call('ZRANGEBYLEX', base .. 'l', from, '+', 'LIMIT', 0, 500)
local old, new = {}, {}
for _, member in ipairs(found) do
    if sub(member, 17) == ARGV[3] and not reached(sub(member, 1, 8), now) then
        local id = sub(member, 9, 16)
        if call('EXISTS', base .. 't' .. id) == 1 then
            call('SETRANGE', base .. 't' .. id, 34, now)
            new[#new + 1] = now .. id .. ARGV[3]
        end
        old[#old + 1] = member
    end
end
if #old > 0 then each('ZREM', base .. 'l', old) end
if #new > 0 then sort_in(base .. 'l', new) end
return #found < 500 and '' or found[#found]
