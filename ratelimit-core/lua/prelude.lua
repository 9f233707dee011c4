-- prelude.lua: the beginning of every script: the clock, and the numbers that a call about one key needs.
local call, pack, decode = redis.call, struct.pack, struct.unpack -- locals, because a lookup by name takes as long as the call

-- The first numbers of ARGV[1]. Without keys there is only the instant.
local now, policies, algorithm, max, window, shape, _, cost =
  decode('<dddddddd', #KEYS > 0 and ARGV[1] or string.rep(ARGV[1], 8))

-- `now` is the instant of the decision in microseconds: -1 is replaced by the server's clock; tests pass their own instant.
-- `at_least` is the shortest TTL in milliseconds. With the clock of a test it is an hour, so that the real clock expires no key
-- that the test still needs.
local at_least = 3600000
if now < 0 then
  local time = call('TIME')
  now, at_least = time[1] * 1000000 + time[2], 1
end

