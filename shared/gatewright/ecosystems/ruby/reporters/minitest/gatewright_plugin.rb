# Minitest loads this by its name, and asks it for a reporter when it begins.
require_relative "../gatewright_channel"

module Minitest
  def self.plugin_gatewright_init(options)
    emit = GatewrightChannel.take
    return if emit.nil?

    GatewrightChannel.planted.each { |path| require path } if GatewrightChannel.purpose == "control"
    chosen = options[:filter] || options[:exclude] || options[:include] || options[:skip]
    unless GatewrightChannel.purpose == "all"
      only = GatewrightFilter.new(GatewrightChannel.only)
      options[:filter] = options[:include] = only
    end
    reporter << GatewrightReporter.new(emit, !chosen)
  end

  # The names of tests as ids have them, behind the file.
  class GatewrightFilter
    def initialize(ids)
      @names = ids.map { |id| id.split("::", 2).last }
    end

    def ===(other)
      @names.include?(other)
    end
  end

  class GatewrightReporter
    def initialize(emit, whole)
      @emit = emit
      @whole = whole
      @good = true
    end

    def start
      @emit.call("begin", framework: "minitest", version: Minitest::VERSION)
      return unless @whole && GatewrightChannel.purpose != "control"

      Minitest::Runnable.runnables.each do |holder|
        holder.runnable_methods.each { |name| @emit.call("collected", id: id(holder, name)) }
      end
    end

    def prerecord(_holder, _name); end

    def record(result)
      name = result.respond_to?(:klass) ? "#{result.klass}##{result.name}" : "#{result.class}##{result.name}"
      place = result.respond_to?(:source_location) ? result.source_location.first : nil
      outcome = if result.skipped? then "skipped" elsif result.passed? then "passed" else "failed" end
      @good = false if outcome == "failed"
      found = "#{place && GatewrightChannel.here(place) || "test"}::#{name}"
      @emit.call("collected", id: found) unless @whole
      @emit.call("test", id: found, outcome: outcome)
    end

    def report
      @emit.call("end", status: @good ? 0 : 1)
    end

    def passed?
      true
    end

    private

    def id(holder, name)
      place = begin
        holder.instance_method(name).source_location
      rescue NameError
        nil
      end
      "#{place && GatewrightChannel.here(place.first) || "test"}::#{holder}##{name}"
    end
  end
end
