// Loaded by opencode as the last plugin of a dispatched run. It reports what opencode's own output does not say: that
// the plugin is active, the model of every call, how long a rate limit will last, and which tool calls are open.
// With DISPATCHER_GATE (the attempt folder) it is also the gate: opencode starts with every tool denied, and only our
// `config` hook opens them; each call is then asked over the folder's gate.sock and held until there is an answer.
// Otherwise it changes nothing. One JSON object per line goes to the file named by DISPATCHER_BRIDGE; without it, it is silent.
// Seen on opencode 1.18: `next` of a retry is epoch milliseconds; a plugin that throws at start is only logged.
import { appendFileSync, closeSync, existsSync, openSync } from "node:fs"
import { connect } from "node:net"

// One question, one answer. The address of a socket may be no longer than 107 bytes, a folder's descriptor is shorter.
const ask = (folder, request) =>
  new Promise((resolve, reject) => {
    const descriptor = existsSync("/proc/self/fd") ? openSync(folder, "r") : -1
    const path = descriptor < 0 ? `${folder}/gate.sock` : `/proc/self/fd/${descriptor}/gate.sock`
    const done = (settle, value) => {
      if (descriptor >= 0) {
        try {
          closeSync(descriptor)
        } catch {
          // closed already
        }
      }
      settle(value)
    }
    const connection = connect({ path })
    let received = ""
    let answered = false
    connection.on("connect", () => connection.write(JSON.stringify(request) + "\n"))
    connection.on("data", (data) => {
      received += data.toString()
      if (!answered && received.endsWith("\n")) {
        answered = true
        connection.end()
        try {
          done(resolve, JSON.parse(received))
        } catch (error) {
          done(reject, error)
        }
      }
    })
    connection.on("error", (error) => !answered && ((answered = true), done(reject, error)))
    connection.on("close", () => !answered && ((answered = true), done(reject, new Error("no answer"))))
  })

// What was asked about is what runs: a plugin that comes later cannot change it any more.
const freeze = (value) => {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(freeze)
  }
  return value
}

export const DispatcherBridge = async () => {
  const file = process.env.DISPATCHER_BRIDGE
  const say = (record) => {
    if (!file) return
    try {
      appendFileSync(file, JSON.stringify({ ...record, at: Date.now() }) + "\n")
    } catch {
      // a report that cannot be written must not disturb the worker
    }
  }
  const gate = process.env.DISPATCHER_GATE
  say({ type: "started", pid: process.pid })

  return {
    config: async (config) => {
      if (!gate) return
      const plugins = config.plugin ?? []
      const last = JSON.stringify(plugins[plugins.length - 1] ?? "")
      if (!last.includes(import.meta.url) && !decodeURI(last).includes(decodeURI(import.meta.url))) {
        say({ type: "gate_refused", reason: "another plugin comes after the gate", last })
        return
      }
      const open = JSON.parse(process.env.DISPATCHER_PERMISSIONS)
      appendFileSync(file, JSON.stringify({ type: "gate_ready", at: Date.now() }) + "\n")
      config.permission = open
      for (const agent of Object.values(config.agent ?? {})) agent.permission = open
    },
    "chat.params": async (input) => {
      say({
        type: "call",
        session: input.sessionID,
        agent: input.agent,
        provider: input.model?.providerID ?? input.provider?.info?.id,
        model: input.model?.id ?? input.model?.modelID,
      })
    },
    "tool.execute.before": async (input, output) => {
      say({ type: "tool_started", session: input.sessionID, tool: input.tool, call: input.callID })
      if (!gate) return
      freeze(output.args)
      Object.defineProperty(output, "args", { writable: false, configurable: false })
      let answer
      try {
        const { tool, sessionID: session, callID: call } = input
        answer = await ask(gate, { tool, input: output.args ?? {}, call, session, mode: "hold" })
      } catch (error) {
        answer = { do: "deny", reason: `the approval gate is closed: ${error}` }
      }
      if (answer.do !== "allow" && answer.do !== "none") throw new Error(answer.reason || "denied")
    },
    "tool.execute.after": async (input) => {
      say({ type: "tool_ended", session: input.sessionID, tool: input.tool, call: input.callID })
    },
    event: async ({ event }) => {
      const properties = event.properties ?? {}
      if (event.type === "session.status" && properties.status?.type === "retry") {
        const { attempt, message, next, action } = properties.status
        say({ type: "retry", session: properties.sessionID, attempt, message, next, action: action?.reason })
      } else if (event.type === "message.updated" && properties.info?.summary === true) {
        say({ type: "summary", session: properties.info.sessionID, message: properties.info.id })
      } else if (event.type === "permission.asked") {
        say({ type: "asked", session: properties.sessionID, permission: properties.permission })
      }
    },
  }
}
