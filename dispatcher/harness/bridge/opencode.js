// Loaded by opencode as the last plugin of a dispatched run. It reports what opencode's own output does not say: that
// the plugin is active, the model of every call, how long a rate limit will last, and which tool calls are open.
// It changes nothing. One JSON object per line goes to the file named by DISPATCHER_BRIDGE; without it, it is silent.
// Seen on opencode 1.18: `next` of a retry is epoch milliseconds; a plugin that throws at start is only logged.
import { appendFileSync } from "node:fs"

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
  say({ type: "started", pid: process.pid })

  return {
    "chat.params": async (input) => {
      say({
        type: "call",
        session: input.sessionID,
        agent: input.agent,
        provider: input.model?.providerID ?? input.provider?.info?.id,
        model: input.model?.id ?? input.model?.modelID,
      })
    },
    "tool.execute.before": async (input) => {
      say({ type: "tool_started", session: input.sessionID, tool: input.tool, call: input.callID })
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
