-- budget, fence, spent. Returns {1}: known, {0}: the fence is no longer valid, {-1}: lost.
if is_lost() then return { -1 } end
local key, fence, spent = root .. 'budget:' .. argument(), argument(), argument()
local is_read, current = unpack(redis.call('HMGET', key, 'read', 'fence'))
if is_read == '1' then return { 1 } end
if current ~= fence then return { 0 } end
redis.call('HSET', key, 'read', '1', 'spent', spent)
return { 1 }
