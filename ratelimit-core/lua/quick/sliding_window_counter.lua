-- quick/sliding_window_counter.lua: fast step of a sliding window counter, for a key inside its sub-window or absent.
-- Twin    ../sliding_window_counter.lua, which describes the state; the same steps fused into one function.
fast_steps[2] = function(key, policy, total)
  local value, sub_windows = stored[key], policy.sub_windows
  local length = policy.window / sub_windows
  if not value then
    local start = now - now % length
    local ttl = millis(start + length + policy.window - now)
    local state = pack('<c1I7I5I5', 'c', start, total, 0)
    if sub_windows > 1 then
      state = state .. string.rep('\0', 5 * sub_windows)
    end
    -- NX fails if the key exists after all, with another type.
    return total <= policy.max and call('SET', KEYS[key], state, 'PX', ttl, 'NX')
  elseif #value ~= (sub_windows == 1 and 18 or 18 + 5 * sub_windows) then
    return false
  end
  local tag, start, current, oldest = struct.unpack('<BI7I5I5', value)
  local overlap = length - (now - start)
  if tag ~= 99 or overlap <= 0 or overlap > length then
    return false
  end
  local used = current
  if sub_windows > 1 then
    used = used + (struct.unpack('<I5', value, 19))
  end
  if oldest > 0 then
    used = used + (mul_div(oldest, overlap, length))
  end
  if used == 0 or used + total > policy.max then
    return false
  end
  call('SETRANGE', KEYS[key], '8', pack('<I5', current + total))
  return true
end

