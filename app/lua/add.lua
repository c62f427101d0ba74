-- Adds jobs, each where it belongs: what is due into the stream or its queue, what is due soon into the scheduled set.
-- KEYS 1 ready stream   2 scheduled set   3 epoch; the other keys have the same hash tag, and are named from the prefix
-- ARGV 1 to 3 as in queues.lua   4 now in ms   then for each job: member, run_at in ms rounded up, "1" when it is due
-- Returns how many were added.
local now = tonumber(ARGV[4])
for at = 5, #ARGV, 3 do
  if ARGV[at + 2] == '1' then
    add_due(ARGV[at], tonumber(ARGV[at + 1]))
  else
    redis.call('ZADD', scheduled, ARGV[at + 1], ARGV[at])
  end
end
admit(now)
return (#ARGV - 4) / 3
