-- refund.lua: gives back what reservations took, as far as it still counts.
-- KEYS    one for each charge
-- ARGV    1: little-endian doubles: the instant in microseconds, or -1 for the server's clock; then for each key: number of
--         its algorithm, max, window in microseconds, shape (as in check.lua), cost, the instant of the charge, and the
--         instant from which it no longer counts, in microseconds
-- Reply   1, or 0 if a charge that still counts stays, because later turns are not due
-- Twin    src/algorithm/state.rs, State::refund_charge
local reply = 1
for key = 1, #KEYS do
  local place, at, valid_until = 9 + 56 * (key - 1), nil, nil
  algorithm, max, window, shape, cost, at, valid_until = decode('<ddddddd', ARGV[1], place)
  if now >= valid_until then
    -- The units no longer count.
  elseif not steps[algorithm] then
    local state, failure = log.open(key, window)
    if failure then
      return failure
    elseif state and state.stored then
      log.refund(state, cost, at)
      if not state.corrupt then
        log.save(state)
      end
    end
  else
    local value = redis.pcall('GET', KEYS[key])
    if type(value) == 'string' then
      -- A cost of 0 brings the state to `now`, also if it does not fit because of a debt.
      local fits, bytes, ttl = steps[algorithm](value, 0, maxima[algorithm] or max, window, shape)
      local is_in_debt = fits == false and algorithm == 4
      if fits or is_in_debt then
        value = ttl and bytes or value
        local state, lives = refunds[algorithm](value, cost, at, valid_until, max, window, shape, is_in_debt)
        ttl = lives or ttl
        if not state then
          reply = 0
        elseif ttl then
          call('SET', KEYS[key], state, 'PX', millis(ttl))
        else
          call('SETRANGE', KEYS[key], '0', state)
        end
      end
    elseif value and not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value
    end
  end
end
return reply
