-- fixed_window.lua: one count that starts again at each multiple of the window since the epoch.
-- State   string, 13 bytes: 'f', start (7 bytes, little-endian, microseconds), count (5 bytes)
-- Shape   1, or the first instant of a window that has this key to itself: then the count never starts again, and `window` is how
--         long it is kept
-- Twin    src/algorithm/fixed_window.rs, which explains the formulas; same names, same integer steps
repeat
  local start, count, has_own_key = 0, 0, shape ~= 1
  if value then
    if #value ~= 13 then
      break
    end
    local tag, begun, units = decode('<BI7I5', value)
    if tag ~= 102 then -- 'f'
      break
    end
    start, count = begun, units
  end
  local went_back = now < start and count > 0 and not has_own_key
  local starts_again = went_back or not value or not has_own_key and (count == 0 or now - start >= window)
  if went_back then
    start = now
  elseif starts_again then
    start, count = has_own_key and shape or now - now % window, 0
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
maxima[1] = math.huge -- brings a count above a lowered maximum to `now` as well
refunds[1] = function(value, cost, at, _, _, window, shape)
  local tag, start, count = decode('<BI7I5', value)
  if shape ~= 1 or start <= at and at - start < window then
    count = math.max(count - cost, 0)
  end
  return pack('<BI7I5', tag, start, count)
end
