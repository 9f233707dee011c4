-- quick/fixed_window.lua: fast step of a fixed window, for a key inside its window or absent.
-- Twin    ../fixed_window.lua, which describes the state; the same steps fused into one function.
fast_steps[1] = function(key, policy, total)
  local value, window = stored[key], policy.window
  if not value then
    local start = now - now % window
    local ttl = millis(start + window - now)
    -- NX fails if the key exists after all, with another type.
    return total <= policy.max
      and call('SET', KEYS[key], pack('<c1I7I5', 'f', start, total), 'PX', ttl, 'NX')
  elseif #value ~= 13 then
    return false
  end
  local tag, start, count = struct.unpack('<BI7I5', value)
  local into = now - start
  if tag ~= 102 or into < 0 or into >= window or count == 0 or count + total > policy.max then
    return false
  end
  call('SETRANGE', KEYS[key], '8', pack('<I5', count + total))
  return true
end

