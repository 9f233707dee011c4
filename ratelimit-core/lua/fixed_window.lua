-- fixed_window.lua: one count that starts again at each multiple of the window since the epoch, or at each edge of a calendar.
-- State   string, 13 bytes: 'f', start (7 bytes, little-endian, microseconds), count (5 bytes)
--         of a calendar 20 bytes: 'k', start, count, ends (7 bytes). Its states of before are like the others, and end with their key
-- Shape   1, or for a calendar window its first instant; its length is `window`, and calendar.lua has chosen the one that has `now`
-- Twin    src/algorithm/fixed_window.rs and src/algorithm/calendar_window.rs, which explain the formulas; same names, same
--         integer steps
repeat
  local start, count, ends = 0, 0, 0
  local from = shape ~= 1 and shape -- of a calendar window
  if value then
    if #value ~= 13 and (not from or #value ~= 20 or string.byte(value) ~= 107) then -- 'k'
      break
    end
    local tag, begun, units = decode('<BI7I5', value)
    if tag ~= 102 then -- 'f'
      if #value ~= 20 then
        break
      end
      ends = decode('<I7', value, 14)
    elseif from then
      ends = now + 1 -- unknown, and not over while the key lives: it is written anew
    end
    start, count = begun, units
  end
  local before = from and from + window
  if from and count == 0 and start <= now and now < ends then
    -- An empty count does not begin at an earlier edge again: what was charged in that window before is not of this count.
    from, before = math.max(start, from), math.max(ends, before)
  end
  local went_back = now < start and count > 0
  local starts_again = went_back or count == 0
    or from and (ends <= now or start + window / 2 < from) or not from and now - start >= window
  if went_back then
    start = from or now
  elseif starts_again then
    start, count = from or now - now % window, 0
  end
  -- A count that began by other zone data or another anchor is kept until the end of this window, also by a denial.
  local lasts_longer = from and ends < before and not starts_again
  fits = count + cost <= max
  if fits then
    count = count + cost
    if not starts_again and not lasts_longer then
      bytes = pack('<I5', count)
      break
    end
  elseif not went_back and not lasts_longer then
    break
  end
  if from then
    bytes, ttl = pack('<c1I7I5I7', 'k', start, count, before), before - now
  else
    bytes, ttl = pack('<c1I7I5', 'f', start, count), start + window - now
  end
until true
-- refund:
maxima[1] = math.huge -- so that a count above a lowered maximum is brought to `now` as well
refunds[1] = function(value, cost, at, _, _, window, shape)
  local tag, start, count = decode('<BI7I5', value)
  -- In a calendar, a count that started with another window may not have the charge: another anchor may have begun it.
  if shape == 1 and start <= at and at - start < window or start == shape then
    count = math.max(count - cost, 0)
  end
  return pack('<BI7I5', tag, start, count) -- refund.lua leaves `ends` behind it
end
