-- Layout of a usual sliding log: a sorted set with a member for each request.
-- ARGV: now and window in milliseconds, limit, a unique member, time to live in seconds.
local now, size, cap = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - size)
local held = redis.call('ZCARD', KEYS[1])
if held >= cap then
  return { 0, held, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] }
end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return { 1, held + 1, 0 }
