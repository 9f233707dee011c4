-- fixed_window.lua: one count that starts again at each multiple of the window since the epoch, or at each edge of a calendar.
-- State   string, 13 bytes: 'f', start (7 bytes, little-endian, microseconds), count (5 bytes)
-- Shape   1, or for a calendar window its first instant; its length is `window`, and calendar.lua has chosen the one that has `now`
-- Twin    src/algorithm/fixed_window.rs and src/algorithm/calendar_window.rs, which explain the formulas; same names, same
--         integer steps
repeat
  local tag, start, count = 102, 0, 0 -- 'f'
  if value then
    if #value ~= 13 then
      break
    end
    tag, start, count = decode('<BI7I5', value)
    if tag ~= 102 then
      break
    end
  end
  local from = shape ~= 1 and shape -- of a calendar window
  local went_back = now < start and count > 0
  local starts_again = went_back or count == 0
    or from and start + window / 2 < from or not from and now - start >= window
  if went_back then
    start = from or now
  elseif starts_again then
    start, count = from or now - now % window, 0
  end
  -- A count that began by other zone data or another anchor gets the TTL of this window, also by a denial: it denies until then.
  local begun_before = from and start < from
  fits = count + cost <= max
  if fits then
    count = count + cost
    if not starts_again and not begun_before then
      bytes = pack('<I5', count)
      break
    end
  elseif not went_back and not begun_before then
    break
  end
  bytes, ttl = pack('<c1I7I5', 'f', start, count), (from or start) + window - now
until true
-- refund:
maxima[1] = math.huge -- so that a count above a lowered maximum is brought to `now` as well
refunds[1] = function(value, cost, at, _, _, window, shape)
  local _, start, count = decode('<BI7I5', value)
  -- A count that started more than half a window later is another one, which a changed anchor began.
  if start <= at and (shape == 1 and at - start < window or shape ~= 1 and start <= shape + window / 2) then
    count = math.max(count - cost, 0)
  end
  return pack('<c1I7I5', 'f', start, count)
end
