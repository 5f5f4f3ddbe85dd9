"""Why a contract is breached: the stage of the router and the smallest slice that explain it."""
