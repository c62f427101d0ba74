// What every page has: times, liveness, theme, keys, copying. Pages work without it.

import "./live.js";
import "./theme.js";
import "./keys.js";
import "./copy.js";
import { showTimes, tellZone } from "./time.js";

tellZone();
showTimes(document);
setInterval(() => showTimes(document), 1000);
