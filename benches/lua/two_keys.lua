-- Layout of a usual two-window counter: a string key for each window, named inside the script; three values back.
-- ARGV: limit, window in seconds, now in seconds.
local cap, size, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local number = math.floor(now / size)
local this, last = KEYS[1] .. ':' .. number, KEYS[1] .. ':' .. (number - 1)
local used = tonumber(redis.call('GET', this) or '0')
local before = tonumber(redis.call('GET', last) or '0')
local gone = now - number * size
local estimate = before * (1 - gone / size) + used
if estimate >= cap then
  return { 0, math.ceil(estimate), math.ceil(size - gone) }
end
redis.call('INCR', this)
redis.call('EXPIRE', this, size * 2)
return { 1, math.floor(cap - estimate - 1), 0 }
