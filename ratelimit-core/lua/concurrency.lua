-- concurrency.lua: slots that are held at this moment. Each process tells what it holds.
-- State   string, 3 + 23 n bytes: 'n', n (2 bytes, little-endian); and for each process: until when its slots count (7 bytes,
--         microseconds), its number (6 bytes), slots granted to it and slots that it has freed (5 bytes each)
-- ARGV[4] little-endian doubles: the number of the calling process; then for each key: the slots that it knows to be granted to
--         it, and those of them that it has freed; absent if no key is one of slots
-- Twin    src/algorithm/concurrency.rs, which explains the rule; same names, same integer steps. `window` is how long slots count
--         after the last message of their process. Only open.lua runs this, since it writes on denial as well: `key` is the
--         number of the key. A cost of 0 only tells: it renews what is held, and frees what has ended.
repeat
  local own, granted, freed = decode('<d', ARGV[4]), decode('<dd', ARGV[4], 16 * key - 7)
  local held, latest, entries = 0, now, {}
  if value then
    if string.byte(value) ~= 110 or #value < 3 or #value ~= 3 + 23 * decode('<I2', value, 2) then -- 'n'
      break
    end
    local is_sound = true
    for place = 4, #value, 23 do
      local till, process, taken, ended = decode('<I7I6I5I5', value, place)
      is_sound = is_sound and ended <= taken
      if process == own then -- told numbers only grow, so a message may come late, twice or never
        granted, freed = math.max(granted, taken), math.max(freed, ended)
      elseif till > now then
        till = math.min(till, now + window) -- a later instant is of a clock that went back
        entries[#entries + 1] = pack('<I7', till) .. string.sub(value, place + 7, place + 22)
        held, latest = held + taken - ended, math.max(latest, till)
      end
    end
    if not is_sound then
      break
    end
  end
  fits = held + granted - freed + cost <= max
  if fits then
    granted = granted + cost
  end
  if granted > freed then
    latest = now + window
    entries[#entries + 1] = pack('<I7I6I5I5', latest, own, granted, freed)
  end
  if value or entries[1] then
    bytes, ttl = pack('<c1I2', 'n', #entries) .. table.concat(entries), latest - now
  end
until true
-- refund:
refunds[5] = function() -- a slot is freed, and never refunded
end
