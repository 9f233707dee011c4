-- sliding_window_counter.lua: counts per sub-window; the oldest is weighted by its overlap with the window.
-- State   string: 'c', start (7 bytes, little-endian, microseconds), current, oldest (5 bytes each); and with more than
--         one sub-window the sum of the counts between current and oldest, then these counts, newest first (5 bytes each)
-- Twin    src/algorithm/sliding_window_counter.rs, which explains the formulas; same names, same integer steps. Its
--         `earlier` is `between` (with the sum `whole_between`) and `oldest` here.
-- `between` is read only when a sub-window starts, or when a cost does not fit, because waits follow from every count. So a
-- decision that admits takes the same time for every number of sub-windows. Only the other decisions check the sum.
repeat
  local length, start, current, oldest, whole_between, tag = window / shape, 0, 0, 0, 0, 99 -- 'c'
  if value then
    if #value ~= (shape == 1 and 18 or 18 + 5 * shape) then
      break
    end
    tag, start, current, oldest = decode('<BI7I5I5', value)
    if tag ~= 99 then
      break
    elseif shape > 1 then
      whole_between = decode('<I5', value, 19)
    end
  end
  local overlap = length - (now - start)
  local changed, between -- why all of the state has to be written: 'back', 'rolled' or 'empty'
  if overlap > length then
    start, overlap, changed = now, length, 'back'
  elseif overlap <= 0 then
    local into = (now - start) % length
    local by = (now - start - into) / length
    start, overlap, changed = now - into, length - into, 'rolled'
    if shape == 1 or not value then
      oldest = by == 1 and current or 0
    else
      between = { decode('<' .. string.rep('I5', shape - 1), value, 24) }
      between[shape] = oldest
      local sum, whole, rolled = 0, 0, {}
      for i = 1, shape do
        sum = sum + between[i]
        rolled[i] = i == by and current or between[i - by] or 0
        whole = whole + rolled[i]
      end
      if sum - oldest ~= whole_between then
        break
      end
      between, oldest = rolled, rolled[shape]
      whole_between = whole - oldest
    end
    current = 0
  end
  local used = current + whole_between -- the estimate at `now`
  if oldest > 0 then
    local product = oldest * overlap
    if product < 9007199254740992 then -- inline, because it is the usual case; see mul_div.lua
      used = used + (product - product % length) / length
    else
      used = used + (mul_div(oldest, overlap, length))
    end
  end
  if used == 0 then
    start, oldest, changed, between = now - now % length, 0, 'empty', nil
  end
  local admits = used + cost <= max
  if admits then
    current = current + cost
    if not changed then
      fits, bytes = true, pack('<I5', current)
      break
    end
  else
    if shape > 1 and (not changed or changed == 'back') then
      local sum = 0
      for place = 24, #value, 5 do
        sum = sum + (decode('<I5', value, place))
      end
      if sum ~= whole_between then
        break
      end
    end
    if changed ~= 'back' then
      fits = false
      break
    end
  end
  fits, bytes, ttl = admits, pack('<c1I7I5I5', 'c', start, current, oldest), start + length + window - now
  if between then
    bytes = bytes .. pack('<I5' .. string.rep('I5', shape - 1), whole_between, unpack(between, 1, shape - 1))
  elseif shape > 1 then
    bytes = bytes .. (changed == 'back' and string.sub(value, 19) or string.rep('\0', 5 * shape))
  end
until true
-- refund:
maxima[2] = math.huge -- brings a count above a lowered maximum to `now` as well
refunds[2] = function(value, cost, at, _, _, window, sub_windows)
  local length = window / sub_windows
  local _, start = decode('<BI7', value)
  local back = math.ceil((start - at) / length)
  -- Lowers the count at `place` by at most `units`. Returns how many it was, and the value.
  local function lower(from, place, units)
    local count = decode('<I5', from, place)
    units = math.min(units, count)
    return units, string.sub(from, 1, place - 1) .. pack('<I5', count - units) .. string.sub(from, place + 5)
  end
  if back == sub_windows then
    _, value = lower(value, 14, cost)
  elseif back > 0 and back < sub_windows then
    local sum = 0
    for place = 24, #value, 5 do
      sum = sum + (decode('<I5', value, place))
    end
    if sum ~= decode('<I5', value, 19) then
      return nil
    end
    local given_back
    given_back, value = lower(value, 19 + 5 * back, cost)
    _, value = lower(value, 19, given_back)
  elseif back <= 0 and at - start < length then
    _, value = lower(value, 9, cost)
  end
  return value
end
