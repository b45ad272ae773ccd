-- Pairs: what is to become of a task, and the row of its attempt or ''.
-- Answers with what became of each, and the line of those that wait again.
local out, dones, entombed, logged = {}, {}, {}, {}
local unleased, undue, lines, deadlines, dead = {}, {}, {}, {}, {}
local counts, landed, rows = {}, {}, {}
local UNHELD = NIL8 .. NIL8
-- One attempt, in the first generation: there are no rows of it yet.
local FIRST = '\0\0\0\1\0\0\0\0'

for at = 4, #ARGV, 2 do
    local what, row = ARGV[at], ARGV[at + 1]
    local id = sub(what, 1, 8)
    local key = base .. 't' .. id
    local task = call('GETRANGE', key, '0', '129')
    local state = byte(task, 1)
    if #task < 130 or sub(task, 27, 34) ~= sub(what, 9, 16)
        or (state ~= IN_FLIGHT and state ~= HELD) then
        out[#out + 1] = '\0\0\0\0\0\0'
    else
        local lane = unpack8('>I4', task, 127)
        local becomes, answer = byte(what, 17), '\1'
        if becomes == PENDING and byte(task, 2) == 1 then becomes, answer = CANCELLED, '\2' end
        local status = sub(what, 20, 21)
        if status == '\0\0' then status = sub(task, 5, 6) end
        unleased[#unleased + 1] = sub(task, 35, 42) .. id .. sub(task, 59, 62)
        landed[lane] = (landed[lane] or 0) + 1
        if becomes == PENDING then
            local due = sub(what, 22, 29)
            call('SETRANGE', key, '0', '\0\0' .. sub(what, 18, 18) .. '\0' .. status .. sub(task, 7, 34)
                .. UNHELD .. NIL8 .. sub(task, 59, 62) .. due .. sub(task, 71, 86) .. sub(what, 30, 69))
            local turn = sub(task, 7, 10) == '\0\0\0\0' and '\0' or '\1'
            local line = lane * 2 + byte(turn)
            push(lines, line, due .. id)
            counts[line] = (counts[line] or 0) + 1
            deadlines[#deadlines + 1] = sub(task, 79, 86) .. id
            out[#out + 1] = '\3' .. pack('>I4', lane) .. turn
        else
            local because = becomes == EXHAUSTED and sub(what, 19, 19) or '\0'
            call('SETRANGE', key, '0', string.char(becomes) .. '\0' .. sub(task, 3, 3) .. because
                .. status .. sub(task, 7, 34) .. UNHELD .. now)
            undue[#undue + 1] = sub(task, 79, 86) .. id
            if becomes == EXHAUSTED then
                entombed[#entombed + 1] = now .. id
                push(dead, tenant_of(head_of(id)), id)
                counts['d' .. lane] = (counts['d' .. lane] or 0) + 1
            else
                dones[#dones + 1] = now .. id
            end
            out[#out + 1] = answer .. '\0\0\0\0\0'
        end
        if row ~= '' then
            if state == IN_FLIGHT and sub(task, 7, 14) == FIRST then
                rows[#rows + 1] = base .. 'a' .. id
                rows[#rows + 1] = row
            else
                call('APPEND', base .. 'a' .. id, row)
            end
            local begun = sub(what, 70, 77)
            logged[#logged + 1] = (reached(begun, now) and begun or now) .. id
        end
    end
end
for from = 1, #rows, 2000 do
    call('MSET', unpack(rows, from, math.min(from + 1999, #rows)))
end
if #unleased > 0 then each('ZREM', base .. 'l', unleased) end
if #undue > 0 then each('ZREM', base .. 'z', undue) end
for line, members in pairs(lines) do
    sort_in(base .. 'q' .. line, members)
    refresh_head(line)
end
if #deadlines > 0 then sort_in(base .. 'z', deadlines) end
for tenant, ids in pairs(dead) do sort_in(base .. 'd' .. tenant, ids) end
if #dones > 0 then each('RPUSH', base .. 'o', dones) end
if #entombed > 0 then each('RPUSH', base .. 'b', entombed) end
if #logged > 0 then each('RPUSH', base .. 'g', logged) end
for field, by in pairs(counts) do count(field, by) end
for lane, by in pairs(landed) do count('i' .. lane, -by) end
return table.concat(out)
