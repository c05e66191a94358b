-- owner. The process stops, and others need not wait for the end of its lease.
if is_lost() then return { -1 } end
end_owner(argument())
return { 1 }
