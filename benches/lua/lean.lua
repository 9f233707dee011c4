-- The two-window counter at its leanest, for one EVALSHA a check: both counts and the window's number in one integer, so
-- that inside a window the decision is one INCR. A prototype: it trusts the client's clock, and forgets all when that
-- goes back.
-- ARGV: limit (below 2^20), window and now in milliseconds. Negative: denied.
local cap, size, now = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local gone = now % size
local number = (now - gone) / size % 4096
local packed = redis.call('INCR', KEYS[1])
local this = packed % 1048576
local rest = (packed - this) / 1048576
local last = rest % 1048576
local age = (number - (rest - last) / 1048576) % 4096
if age ~= 0 or packed == 1 then
  last = (age == 1 and packed ~= 1) and this - 1 or 0
  this = 1
  redis.call('SET', KEYS[1], string.format('%.0f', (number * 1048576 + last) * 1048576 + 1), 'PX', size * 2)
end
local estimate = last * (size - gone) / size + this
if estimate > cap then
  redis.call('DECR', KEYS[1])
  return gone - size
end
return cap - estimate
