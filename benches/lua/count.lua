-- The second of two round trips of limiters that look first and count afterwards.
-- ARGV: window in milliseconds.
local count = redis.call('INCRBY', KEYS[1], 1)
if count == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return count
