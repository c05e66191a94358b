-- owner, lease. Returns {number of owners whose lease is not over}, {-1}: lost.
if is_lost() then return { -1 } end
local owner, lease_ms = argument(), number()
extend_lease(owner, lease_ms)
end_expired_owners()
-- What a generation leaves behind goes away by itself.
for _, key in ipairs({ 'owners', 'running', 'held:' .. owner }) do redis.call('PEXPIRE', root .. key, integer(DAY_MS)) end
return { redis.call('ZCARD', root .. 'owners') }
