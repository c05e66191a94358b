-- buckets. Returns {1, level, …}, {-1}: lost.
if is_lost() then return { -1 } end
local answer = { 1 }
for _ = 1, number() do
  local bucket, per_minute = argument(), number()
  answer[#answer + 1] = level_of(bucket, per_minute)
end
return answer
