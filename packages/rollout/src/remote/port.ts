// Ways to the other side: a thread, a message port, a child process. Each gives messages in order and says when nobody is there any more.
import type { ChildProcess } from "node:child_process"

/** One end of a connection. */
export interface WorkerPort {
  /** Names the other side in errors. */
  readonly name: string
  post(message: unknown, transfer?: readonly ArrayBuffer[]): void
  /** Called once, before anything is posted. `onGone` is told why the other side ended, unless it was closed from here. */
  listen(onMessage: (message: unknown) => void, onGone: (why: string) => void): void
  /** Ends the connection and, from the run's end, the thread or the process. */
  close(): void
}

/** The run's end of a thread that calls `serveRolloutWorker(portToRun(), ...)`. */
export function portToThread(thread: Worker, name = "the rollout thread"): WorkerPort {
  let closed = false
  return {
    name,
    post: (message, transfer = []) => thread.postMessage(message, [...transfer]),
    listen(onMessage, onGone) {
      thread.addEventListener("message", (event) => onMessage(event.data))
      thread.addEventListener("error", (event) => {
        event.preventDefault()
        if (!closed) onGone(event.message)
      })
      thread.addEventListener("close", (event) => {
        if (!closed) onGone(`it ended with code ${(event as CloseEvent).code}`)
      })
    },
    close() {
      closed = true
      thread.terminate()
    },
  }
}

/** Either end of a `MessageChannel`. Nothing tells that its other side is gone but silence, which the heartbeat shows. */
export function portOfChannel(port: MessagePort, name = "the rollout worker"): WorkerPort {
  return {
    name,
    post: (message, transfer = []) => port.postMessage(message, [...transfer]),
    listen(onMessage, onGone) {
      port.addEventListener("message", (event) => onMessage(event.data))
      port.addEventListener("close", () => onGone("its port was closed"))
      port.start()
    },
    close: () => port.close(),
  }
}

/** A thread's end of the connection to whoever started it. */
export function portToRun(thread: typeof globalThis = globalThis): WorkerPort {
  // In a thread the global is the port; the types know the page's global only.
  const global = thread as unknown as { postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void; addEventListener: Worker["addEventListener"]; close?: () => void }
  return {
    name: "the run",
    post: (message, transfer = []) => global.postMessage(message, transfer),
    listen: (onMessage) => global.addEventListener("message", (event) => onMessage((event as MessageEvent).data)),
    close: () => undefined,
  }
}

/** The run's end of a child process that was forked with `serialization: "advanced"`, without which arrays do not survive. */
export function portToChild(child: ChildProcess, name = "the rollout process"): WorkerPort {
  let closed = false
  return {
    name,
    post: (message) => void child.send(message as object),
    listen(onMessage, onGone) {
      child.on("message", onMessage)
      child.on("error", (error) => !closed && onGone(error.message))
      child.on("exit", (code, signal) => !closed && onGone(signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`))
    },
    close() {
      closed = true
      child.kill()
    },
  }
}

/** A child process's end of the connection to its parent. */
export function portToParent(self: Pick<NodeJS.Process, "send" | "on" | "disconnect">): WorkerPort {
  return {
    name: "the run",
    post: (message) => void self.send?.(message),
    listen(onMessage, onGone) {
      self.on("message", onMessage)
      self.on("disconnect", () => onGone("its process is gone"))
    },
    close: () => self.disconnect?.(),
  }
}
