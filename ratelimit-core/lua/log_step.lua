-- log_step.lua: the usual decision about a log: the oldest entries of one node expire, and an entry joins the last node.
-- Changes the state as sliding_window_log.lua does, which describes it, but runs none of that file's definitions: they take
-- longer than this whole step. Leaves `fits` nil and writes nothing if more is needed: for a cost of 0 or above 255, a node that
-- becomes full, empty or wider, two entries at one instant, a clock that went back, nodes to remove, a denial whose wait does not
-- end with the first entry, and a state that may be corrupt.
repeat
  if cost == 0 or cost > 255 then
    break
  end
  local header = redis.pcall('HGET', KEYS[key], 'h')
  local used, newest, first, skip, last, kept, base, width = 0, 0, 0, 0, 0, 0, now, cost > 1 and 1 or 0
  local tag, skipped, time, units -- time and units of the first live entry
  if header then
    if #header < 42 then -- no entry in the last node, or an error, which is a table
      break
    end
    tag, used, newest, first, skip, last, kept, base, width = decode('<BI5I7I5BI5I5I7B', header)
    local count, oldest = (#header - 37) / (5 + width), now - window
    if
      tag ~= 108 -- 'l'
      or now <= newest
      or newest < oldest
      or first > last
      or kept ~= first
      or width > 1
      or cost > 1 and width == 0
      or count % 1 ~= 0
      or count > 61
      or count == 61 and (first < last or skip == 0)
      or now - base > 1099511627775
      or base + decode('<I5', header, #header - 4 - width) ~= newest
    then
      break
    end
    local node, head, start, size = header, 37, base, 5 + width -- of the first live entry
    if first < last then
      node, head = call('HGET', KEYS[key], '0:' .. first), 8
      if not node or #node < 13 or used <= count then
        break
      end
      start, size = decode('<I7B', node)
      size = 5 + size
      if size > 6 or (#node - 8) % size ~= 0 or #node > 8 + 61 * size then
        break
      end
    end
    local at, format = head + skip * size + 1, size == 5 and '<I5' or '<I5B'
    skipped = skip
    while at < #node do
      time, units = decode(format, node, at)
      time, units = start + time, size == 5 and 1 or units
      if time >= oldest then
        break
      end
      used, skip, at = used - units, skip + 1, at + size
    end
    if at > #node or time < oldest or time > newest or units == 0 or units > used then
      break
    end
  elseif call('PTTL', KEYS[key]) ~= -2 then -- a hash without a header
    break
  end
  fits = used + cost <= max
  if fits then
    local from = 38
    if first == last then -- no other node is live: expired entries are removed from this node
      from, skip = 38 + skip * (5 + width), 0
    end
    -- In one expression: Lua copies and hashes every string that it makes.
    local node = pack('<BI5I7I5BI5I5I7B', 108, used + cost, now, first, skip, last, kept, base, width)
      .. (header and string.sub(header, from) or '')
      .. pack(width == 0 and '<I5' or '<I5B', now - base, cost)
    call('HSET', KEYS[key], 'h', node)
    call('PEXPIRE', KEYS[key], math.max((window - window % 1000) / 1000 + 1001, at_least))
  elseif cost > 1 or used > max or skip > skipped then
    fits = nil
    break
  end
  if used > 0 then -- the summary; a new log has none
    if used + cost >= max then
      value = pack('<c1I5I7I2I7I5', 'l', used, newest, 1, time, units)
    else
      value = pack('<c1I5I7I2', 'l', used, newest, 0)
    end
    if stored then
      stored[key] = value
    end
  end
until true
