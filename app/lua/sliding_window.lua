-- A sliding window over single hits: a list of their times in microseconds, oldest first, by Redis' own clock. Exact: no
-- span of the window's length ever holds more than `limit` hits. A hit costs one push and, on average, one pop.
-- KEYS 1 window   ARGV 1 limit   2 window in microseconds   3 "1" to count this hit, "0" only to look
-- Returns {1 when admitted else 0, hits left, microseconds until one more hit is free (0: the window is empty)}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
while oldest and oldest <= now - window do
  redis.call('LPOP', KEYS[1])
  oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
end
local used = redis.call('LLEN', KEYS[1])
if used >= limit then
  -- After a limit was lowered more than one hit must leave before the next is admitted.
  local leaving = tonumber(redis.call('LINDEX', KEYS[1], used - limit))
  return {0, 0, math.min(window, leaving + window - now)}
end
if ARGV[3] == '1' then
  -- A clock set back must not put the list out of order.
  local newest = tonumber(redis.call('LINDEX', KEYS[1], -1)) or now
  redis.call('RPUSH', KEYS[1], string.format('%.0f', math.max(now, newest)))
  redis.call('PEXPIRE', KEYS[1], math.ceil((math.max(now, newest) + window - now) / 1000))
  used = used + 1
  oldest = oldest or now
end
return {1, limit - used, oldest and math.min(window, oldest + window - now) or 0}
