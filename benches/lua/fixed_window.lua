-- Layout of a usual fixed window: one counter whose key names the window, and its time to live as the wait.
-- ARGV: window in seconds.
local hits = redis.call('INCR', KEYS[1])
if hits == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return { hits, redis.call('TTL', KEYS[1]) }
