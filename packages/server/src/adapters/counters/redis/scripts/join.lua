-- run_id of the server, start of all names, time until a new generation is used, owner, lease, number of earlier owners, earlier owners
-- Returns {generation, milliseconds until it may be used, number of owners}.
--
-- Counters are right only if nothing was lost since they were written. After a restart or a failover something may be missing, so a new
-- run of the server begins a new, empty generation. It is used when every process had time to put in what it holds.
local run_id, start, settle_ms = argument(), argument(), number()
local owner, lease_ms = argument(), number()
local generation, known_run = unpack(redis.call('HMGET', meta, 'generation', 'run_id'))
if not generation or known_run ~= run_id then
  local time = redis.call('TIME')
  generation = time[1] .. '-' .. time[2]
  redis.call('HSET', meta, 'generation', generation, 'run_id', run_id, 'ready_at', integer(now + settle_ms))
end
root = start .. generation .. ':'
for _ = 1, number() do end_owner(argument()) end
extend_lease(owner, lease_ms)
end_expired_owners()
local ready_at = tonumber(redis.call('HGET', meta, 'ready_at'))
return { generation, math.max(0, ready_at - now), redis.call('ZCARD', root .. 'owners') }
