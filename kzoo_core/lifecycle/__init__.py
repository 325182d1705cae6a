"""The walk of one submission through contract, queue and store."""
