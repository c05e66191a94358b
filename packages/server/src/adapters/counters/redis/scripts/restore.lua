-- owner, admissions with what they hold, budgets to read again, buckets with what to add to their level: this process's share of a level
-- that was lost, or less than 0 for what it took while Redis was away
-- Puts in what a process holds after the counters were lost or out of reach. Returns {1}, {-1}: lost.
if is_lost() then return { -1 } end
local owner = argument()
-- A call that arrives late, after the process has joined under another name: nothing would ever give back what it puts in.
if not redis.call('ZSCORE', root .. 'owners', owner) then return { -1 } end
for _ = 1, number() do
  local id, held = argument(), argument()
  if redis.call('HSETNX', root .. 'held:' .. owner, id, held) == 1 then
    local admission = cjson.decode(held)
    for _, counter in ipairs(admission.c) do add_running(counter, 1) end
    for _, budget in ipairs(admission.b) do
      local key = root .. 'budget:' .. budget[1]
      redis.call('HINCRBY', key, 'reserved', integer(budget[2]))
      if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, integer(BUDGET_MS)) end
    end
  end
end
for _ = 1, number() do mark_unread(argument()) end
for _ = 1, number() do
  local id, per_minute, share = argument(), number(), number()
  local level, updated = 0, now
  if share < 0 or redis.call('EXISTS', root .. 'bucket:' .. id) == 1 then level, updated = level_of(id, per_minute) end
  set_level(id, per_minute, math.min(per_minute * PARTS - 1, level + share), updated)
end
return { 1 }
