-- fixed_window.lua: one count that starts again at each multiple of the window since the epoch.
-- State   string, 13 bytes: 'f', start (7 bytes, little-endian, microseconds), count (5 bytes)
-- Twin    src/algorithm/fixed_window.rs, which explains the formulas; same names, same integer steps
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
  local went_back = now < start and count > 0
  local starts_again = went_back or count == 0 or now - start >= window
  if went_back then
    start = now
  elseif starts_again then
    start, count = now - now % window, 0
  end
  fits = count + cost <= max
  if fits then
    count = count + cost
    if not starts_again then
      bytes = pack('<I5', count)
      break
    end
  elseif not went_back then
    break
  end
  bytes, ttl = pack('<c1I7I5', 'f', start, count), start + window - now
until true
-- refund:
maxima[1] = math.huge -- so that a count above a lowered maximum is brought to `now` as well
refunds[1] = function(value, cost, at, _, _, window)
  local _, start, count = decode('<BI7I5', value)
  if start <= at and at - start < window then
    count = math.max(count - cost, 0)
  end
  return pack('<c1I7I5', 'f', start, count)
end
