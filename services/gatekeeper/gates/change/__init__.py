"""Gates on changes: is what differs between two trees what the contract ordered?"""
