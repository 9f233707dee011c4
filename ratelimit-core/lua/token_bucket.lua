-- token_bucket.lua: a bucket of `burst` tokens, refilled at `max` per window, kept as one instant.
-- State   string: a tag; tat: whole microseconds (7 bytes, little-endian) and a numerator over `max` (5 bytes); and by the tag:
--         't'       13 bytes: nothing else
--         'd', 'e'  20 bytes, may be in debt, with turns ('d') or without: the instant of the last settlement or turn (7 bytes)
--         'r'       20 bytes, units were given back out of order: `returned` (7 bytes)
--         'o', 'p'  27 bytes, 'r' and also 'd' or 'e': the instant of the last settlement or turn, then `returned`
-- Twin    src/algorithm/token_bucket.rs, which explains the formulas; same names, same integer steps. An instant or a
--         span is two numbers here, micros and fraction.
repeat
  local tag, tat_micros, tat_fraction, indebted_at, returned, went_back = 116, 0, 0 -- 't'
  if value then
    if #value ~= 13 then
      tag = #value > 13 and string.byte(value)
      if (tag == 100 or tag == 101) and #value == 20 then -- 'd', 'e'
        indebted_at = decode('<I7', value, 14)
      elseif tag == 114 and #value == 20 then -- 'r'
        returned = decode('<I7', value, 14)
      elseif (tag == 111 or tag == 112) and #value == 27 then -- 'o', 'p'
        indebted_at, returned = decode('<I7I7', value, 14)
      else
        break
      end
    end
    tag, tat_micros, tat_fraction = decode('<BI7I5', value)
    if tag ~= 116 and not (indebted_at or returned) or tat_fraction >= max then
      break
    elseif tag ~= 116 then
      returned = returned or 0
      local longest = (indebted_at or 0) + 31622400000000 -- 366 days
      if returned > 4503599627370496 then -- 142 years
        break
      elseif not indebted_at then
        -- The bucket is not in debt.
      elseif tat_micros < indebted_at or tat_micros > longest or (tat_micros == longest and tat_fraction > 0) then
        break
      else
        local micros, fraction = mul_div(shape, window, max)
        micros = now + micros
        local in_debt = tat_micros > micros or (tat_micros == micros and tat_fraction > fraction)
        if in_debt and now < indebted_at then -- the clock went back, and the debt with it
          returned = math.min(returned + (indebted_at - now), 4503599627370496)
          tat_micros, indebted_at, went_back = tat_micros - (indebted_at - now), now, true
          in_debt = tat_micros > micros or (tat_micros == micros and tat_fraction > fraction)
        end
        indebted_at = in_debt and indebted_at
      end
      -- While the bucket is full, time pays what was given back.
      returned = math.max(math.min(returned, returned + tat_micros + (tat_fraction > 0 and 1 or 0) - now), 0)
      returned = returned > 0 and returned
    end
  end
  if tat_micros < now then
    tat_micros, tat_fraction = now, 0
  end
  local micros, fraction
  fits = cost <= shape
  if fits and (tat_micros > now or tat_fraction > 0) then -- not full
    micros, fraction = mul_div(shape - cost, window, max)
    micros = now + micros
    fits = tat_micros < micros or (tat_micros == micros and tat_fraction <= fraction)
  end
  if not fits and (indebted_at or went_back) then
    if went_back then
      local has_turns = tag == 100 or tag == 111
      tag = indebted_at and (returned and 111 or 100) + (has_turns and 0 or 1) or returned and 114 or 116
      bytes = pack('<BI7I5', tag, tat_micros, tat_fraction)
      bytes = bytes .. (indebted_at and pack('<I7', indebted_at) or '') .. (returned and pack('<I7', returned) or '')
      ttl = tat_micros - now + 1
    end
    break
  elseif not fits then
    micros, fraction = mul_div(shape, window, max)
    micros = now + micros
    if tat_micros < micros or (tat_micros == micros and tat_fraction <= fraction) then
      break
    end
    -- The bucket is emptier than an empty one, because the clock went back.
    returned = (returned or 0) + tat_micros - micros + (tat_fraction > fraction and 1 or 0)
    returned = math.min(returned, 4503599627370496)
    tat_micros, tat_fraction, fits = micros, fraction, cost == 0
  elseif cost > 0 then
    micros, fraction = mul_div(cost, window, max)
    tat_micros, tat_fraction = tat_micros + micros, tat_fraction + fraction
    if tat_fraction >= max then
      tat_micros, tat_fraction = tat_micros + 1, tat_fraction - max
    end
  end
  bytes = pack('<c1I7I5', 't', tat_micros, tat_fraction)
  ttl = tat_micros - now + (tat_fraction > 0 and 1 or 0)
  if returned then
    -- The TTL ends when the bucket is full, and all charges have ended or are too old.
    micros, fraction = mul_div(shape, window, max)
    bytes = 'r' .. string.sub(bytes, 2) .. pack('<I7', returned)
    ttl = math.max(ttl, math.min(ttl + returned, micros + (fraction > 0 and 1 or 0)))
  end
until true
-- refund:
local function is_later(micros, fraction, other_micros, other_fraction)
  return micros > other_micros or (micros == other_micros and fraction > other_fraction)
end

-- Gives back nothing if turns are not due and the charge is not the last one. With such turns the last charge is never too old.
refunds[4] = function(value, cost, at, mark, max, window, burst, is_in_debt)
  local tag, tat_micros, tat_fraction = decode('<BI7I5', value)
  local returned = (tag == 114 or tag == 111 or tag == 112) and decode('<I7', value, #value - 6) or 0
  local only_last = is_in_debt and (tag == 100 or tag == 111)
  local full_micros, full_fraction = mul_div(burst, window, max)
  local is_last = max <= window and mark == tat_micros + (tat_fraction > 0 and 1 or 0) + returned
  if only_last and not is_last then
    return
  end
  local micros, fraction = mul_div(cost, window, max)
  if not is_last then
    -- The mark is rounded up, so the exact mark is after `mark - 1`. It is also not before the instant at which a bucket that was
    -- full at `at` is full again. The later of the two bounds is never too late.
    local mark_micros, mark_fraction = at + micros, fraction
    if mark - 1 > mark_micros then
      mark_micros, mark_fraction = mark - 1, 0
    end
    if is_later(micros, fraction, mark_micros - returned - now, mark_fraction) then
      micros, fraction = mark_micros - returned - now, mark_fraction
    end
  end
  if is_later(micros, fraction, tat_micros - now, tat_fraction) then
    micros, fraction = tat_micros - now, tat_fraction
  end
  local up = micros + (fraction > 0 and 1 or 0)
  local old_micros, old_fraction = mul_div(burst, window, max)
  local is_too_old = not only_last and now - at >= old_micros + (old_fraction > 0 and 1 or 0)
  if not is_too_old and up > 0 and (is_last or returned + up <= 4503599627370496) then
    tat_micros, tat_fraction = tat_micros - micros, tat_fraction - fraction
    if tat_fraction < 0 then
      tat_micros, tat_fraction = tat_micros - 1, tat_fraction + max
    end
    returned = is_last and returned or returned + up
  end
  local ttl = tat_micros - now + (tat_fraction > 0 and 1 or 0)
  if returned == 0 then
    return pack('<c1I7I5', string.sub(value, 1, 1), tat_micros, tat_fraction) .. string.sub(value, 14), ttl
  end
  ttl = math.max(ttl, math.min(ttl + returned, full_micros + (full_fraction > 0 and 1 or 0)))
  local has_turns, has_debt = tag == 100 or tag == 111, tag == 101 or tag == 112
  local indebted = (has_turns or has_debt) and string.sub(value, 14, 20)
  tag = has_turns and 111 or has_debt and 112 or 114
  return pack('<BI7I5', tag, tat_micros, tat_fraction) .. (indebted or '') .. pack('<I7', returned), ttl
end
