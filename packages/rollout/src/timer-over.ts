// Reason of timers that are no longer needed; one for all, since an exception made for each costs more than the rest of the wait.
export const timerOver = new DOMException("the wait is over", "AbortError")
