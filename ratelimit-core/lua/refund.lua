-- refund.lua: give back what reservations took, as far as it still counts.
-- KEYS    one for each thing taken
-- ARGV    1: little-endian doubles: the instant in microseconds or -1 for the server's clock; then for each key: number of
--         its algorithm, max, window in microseconds, sub-windows or burst, cost, the instants at which it was taken and
--         from which it no longer counts, in microseconds
-- Reply   1
-- Twin    src/algorithm.rs, State::refund
for key = 1, #KEYS do
  local step, max, window, shape, cost, at, valid_until = unpack(args, 7 * key - 5, 7 * key + 1)
  if now < valid_until and call('PTTL', KEYS[key]) ~= -2 then
    local policy = { max = max, window = window, sub_windows = shape, burst = shape }
    step = algorithms[step]
    local state, failure = step.load(key, policy)
    if failure then
      return failure
    elseif state then
      step.settle(state, policy)
      step.refund(state, policy, cost, at, valid_until)
      if not state.foreign then
        step.save(state, key, policy)
      end
    end
  end
end
return 1
