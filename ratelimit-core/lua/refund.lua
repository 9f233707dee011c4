-- refund.lua: give back what reservations took, as far as it still counts.
-- KEYS    one for each thing taken
-- ARGV    1: little-endian doubles: the instant in microseconds or 0 for the server's clock; then for each key: number of
--         its algorithm, max, window in microseconds, sub-windows or burst, cost, the instants at which it was taken and
--         from which it no longer counts, in microseconds
-- Reply   1
-- Twin    src/algorithm.rs, State::refund
local argv = ARGV[1]
local now, at_least = clock((struct.unpack('<d', argv)))
local position = 9
for _, key in ipairs(KEYS) do
  local algorithm, max, window, shape, cost, at, valid_until
  algorithm, max, window, shape, cost, at, valid_until, position = struct.unpack('<ddddddd', argv, position)
  if now < valid_until then
    local policy = { max = max, window = window, sub_windows = shape, burst = shape }
    local step = algorithms[algorithm]
    local state, failure = step.load(key, policy)
    if failure then
      return failure
    elseif state then
      step.settle(state, policy, now)
      step.refund(state, policy, now, at, valid_until, cost)
      step.save(state, key, policy, now, at_least)
    end
  end
end
return 1
