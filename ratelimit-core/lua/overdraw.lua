-- overdraw.lua: charges beyond a limit, for a settlement or a wait.
-- Charges one key beyond its limit: its own policy brings it to `now`, and the policy with the largest limit is charged.
-- A settlement (`wait` is false) is charged as many units as fit that limit. A wait is charged its whole cost, and only if the same
-- check would pass after `wait` microseconds; a cost that fits at `now` is charged like a check.
local function overdraw(first, wait)
  local key, policy = requests[first], 4 * requests[first + 1]
  local failure = values[key] == nil and not corrupt[key] and open(key, policy)
  if failure then
    return nil, failure
  end
  local tag, has_turns, is_due = nil, wait, false
  if type(values[key]) == 'string' then
    tag = string.byte(values[key])
    if tag == 100 or tag == 111 then -- 'd' or 'o', a token bucket: a cost of 0 does not fit while its turns are not due
      has_turns = wait or step(key, policy, 0) == false
    end
    local _, bytes, ttl = step(key, policy, math.huge)
    if ttl then
      values[key], ttls[key] = bytes, ttl
    end
  end
  if wait and values[key] ~= nil then
    is_due = step(key, policy, requests[first + 5])
    now = now + wait
    local passes = step(key, policy, requests[first + 5])
    now = now - wait
    if passes == false then -- not nil: `judge` replies that a state is corrupt
      return '0'
    end
  end
  local verdict, err = judge(first + 3, first + 3, false, false, not wait)
  local value, is_charged = values[key], verdict and string.find(verdict, '^%+?1')
  tag = is_charged and type(value) == 'string' and string.byte(value)
  if not is_due and (tag == 116 or tag == 114) then -- 't' or 'r', a token bucket that may be in debt now
    tag = (tag == 116 and 100 or 111) + (has_turns and 0 or 1)
    values[key] = string.char(tag) .. string.sub(value, 2, 13) .. pack('<I7', now) .. string.sub(value, 14)
  end
  return verdict, err
end
