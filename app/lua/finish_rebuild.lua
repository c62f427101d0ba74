-- Ends a rebuild: only the very value it began with becomes ready (C14). A flush in between leaves nothing to match.
-- KEYS 1 epoch   ARGV 1 "rebuilding:<token>"   2 "ready:<token>"   Returns 1 when it is ready, else 0
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return 1
end
return 0
