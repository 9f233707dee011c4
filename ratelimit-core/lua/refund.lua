-- refund.lua: give back the units of reservations that still count.
-- KEYS    one for each charge
-- ARGV    1: little-endian doubles: the instant in microseconds or -1 for the server's clock; then for each key: number of
--         its algorithm, max, window in microseconds, sub-windows or burst, cost, and two instants in microseconds: when
--         it was charged, and from when it no longer counts (`valid_until`)
-- Reply   1
-- Twin    src/algorithm/state.rs, State::refund
-- Rule    a refund never reaches a later window: the check of `valid_until` below, and `refund` of each algorithm
for key = 1, #KEYS do
  local step, max, window, sub_windows_or_burst, cost, at, valid_until = unpack(args, 7 * key - 5, 7 * key + 1)
  if now < valid_until and call('PTTL', KEYS[key]) ~= -2 then
    local policy = { max = max, window = window, sub_windows = sub_windows_or_burst, burst = sub_windows_or_burst }
    step = algorithms[step]
    local state, failure = step.load(key, policy)
    if failure then
      return failure
    elseif state then
      step.advance(state, policy)
      step.refund(state, policy, cost, at, valid_until)
      if not state.corrupt then
        step.save(state, key, policy)
      end
    end
  end
end
return 1
