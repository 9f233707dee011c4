-- concurrency.lua: slots that requests hold at this moment, as each process reports them.
-- State   string, 3 + 25 n bytes: 'n', n (2 bytes, little-endian); and for each process an entry: the end until which it
--         counts (7 bytes, microseconds), the number of the process (6 bytes), the slots granted to it and the slots that it
--         has freed (6 bytes each: the lower 48 bits of numbers that only grow)
-- ARGV[4] little-endian doubles: the number of the calling process; then for each key the report: the slots granted to the
--         process, as far as it knows, and those of them that it has freed. Absent if no key has a concurrency limit
-- Twin    src/algorithm/concurrency.rs, which explains the rule; same names, same integer steps. `window` is the time for which
--         an entry counts after the last message of its process. This writes on denial as well, so only open.lua runs it, where
--         `key` is the number of the key. A cost of 0 only reports: it renews the entry, and frees slots.
--         `seen` keeps what the first step of the call read of other processes for a key. It does not change within the call.
--         This saves time if hundreds of processes hold slots of one caller, and a call has many requests about it.
repeat
  local own, granted, freed = decode('<d', ARGV[4]), decode('<dd', ARGV[4], 16 * key - 7)
  local others, wrap = seen[key], 281474976710656 -- 2^48
  if not others then
    if value and (string.byte(value) ~= 110 or #value < 3 or #value ~= 3 + 25 * decode('<I2', value, 2)) then -- 'n'
      break
    end
    -- `from` is the place behind the last entry that is dropped or changed.
    local count, held, latest, last = 0, 0, now, now + window
    local kept, from, is_sound, place_of_own = {}, 4, true, nil
    for place = 4, value and #value or 0, 25 do
      local till, process, taken, ended = decode('<I7I6I6I6', value, place)
      is_sound = is_sound and (taken - ended) % wrap < wrap / 2
      if process == own or till <= now or till > last then
        kept[#kept + 1] = string.sub(value, from, place - 1)
        from = place + 25
      end
      if process == own then
        place_of_own = place
      elseif till > now then
        if till > last then -- the clock went back since
          till = last
          kept[#kept + 1] = pack('<I7', till) .. string.sub(value, place + 7, place + 24)
        end
        count, held = count + 1, held + (taken - ended) % wrap
        if till > latest then
          latest = till
        end
      end
    end
    if not is_sound then
      break
    end
    kept[#kept + 1] = string.sub(value or '', from)
    others = { first = value, own = place_of_own, entries = table.concat(kept), count = count, held = held, latest = latest }
    seen[key] = others
  end
  -- After a step of this call, the own entry is behind the others.
  local place = 4 + #others.entries
  if value == others.first then
    place = others.own
  end
  local is_known = value and place and place < #value
  if is_known then -- reported numbers only grow, so the later ones stay if a message comes late
    local _, _, taken, ended = decode('<I7I6I6I6', value, place)
    granted = (taken - granted) % wrap < wrap / 2 and taken or granted
    freed = (ended - freed) % wrap < wrap / 2 and ended or freed
  end
  fits = others.held + (granted - freed) % wrap + cost <= max
  if fits then
    granted = (granted + cost) % wrap
  end
  local count, latest, entry = others.count, others.latest, ''
  if is_known or granted ~= freed then -- also without held slots: the entry shows that an overtaken message is old
    count = count + 1
    latest = now + window
    entry = pack('<I7I6I6I6', latest, own, granted, freed)
  end
  if value or count > 0 then
    bytes, ttl = pack('<c1I2', 'n', count) .. others.entries .. entry, latest - now
  end
until true
-- refund:
refunds[5] = function() -- slots are freed by reports, and never refunded
end
